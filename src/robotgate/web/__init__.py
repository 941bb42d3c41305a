"""The parts that talk to the web, by aiohttp."""
