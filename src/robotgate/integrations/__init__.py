"""The gate where spiders already live: one thin module for each library, none imported unless asked for."""
