"""Signed requests (Web Bot Auth): a site can verify which crawler sent a request.

Give a gate a signer: ``RobotGate(..., signer=Ed25519Signer.from_pem(path, agent_url="https://bot.example"))``. It signs
every request of the gate, those for robots.txt included, by HTTP message signatures (RFC 9421). Publish the key's
directory at ``agent_url``; docs/signing.md tells how. Needs the extra ``signing``.
"""

from __future__ import annotations

from robotgate.errors import needs_extra

with needs_extra("signing", __name__):
    from robotgate.signing.keys import SigningKey
from robotgate.signing.directory import Directory
from robotgate.signing.signer import AgentForm, Ed25519Signer

__all__ = ["AgentForm", "Directory", "Ed25519Signer", "SigningKey"]
