"""The Ed25519 key of a crawler: made, read from a private file, and named by its thumbprint.

The private half is never shown: not in a repr, a log, an error or the variables of its traceback.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
from base64 import urlsafe_b64encode
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

from cryptography.exceptions import InternalError, UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from robotgate.errors import OptionError

if TYPE_CHECKING:
    from collections.abc import Callable

MAX_PEM_BYTES: Final = 16 * 1024
"""An Ed25519 key takes 119 bytes."""
HAS_MODES: Final = os.name == "posix"
"""On other systems, a file's mode bits do not restrict its readers."""


class SigningKey:
    """An Ed25519 key (RFC 8032).

    Args:
        secret: its private half, in 32 bytes.

    Raises:
        OptionError: these are no such bytes.
    """

    __slots__ = ("_private", "sign", "thumbprint", "x")

    def __init__(self, secret: bytes) -> None:
        try:
            self._private = private = Ed25519PrivateKey.from_private_bytes(secret)
        except (TypeError, ValueError):
            # Error trackers send the variables of frames.
            del secret
            raise OptionError("secret: give 32 bytes") from None
        self.sign: Callable[[bytes], bytes] = private.sign
        """The signature of some bytes, in 64 bytes."""
        public = private.public_key().public_bytes_raw()
        self.x: str = _base64url(public)
        """The public key, as a JWK has it (RFC 8037 §2)."""
        required = {"crv": "Ed25519", "kty": "OKP", "x": self.x}
        text = json.dumps(required, separators=(",", ":"))
        self.thumbprint: str = _base64url(hashlib.sha256(text.encode()).digest())
        """The SHA-256 thumbprint of the public key (RFC 7638, RFC 8037 appendix A.3): the key id of its signatures."""

    @classmethod
    def generate(cls) -> Self:
        """A new key."""
        return cls(Ed25519PrivateKey.generate().private_bytes_raw())

    @classmethod
    def from_pem(cls, path: str | os.PathLike[str]) -> Self:
        """Read a key from a file: PKCS #8 in PEM, without a password, as `write` and OpenSSL write it.

        Raises:
            OptionError: the file cannot be read, holds no such key, can be read by others, or is in a directory in
                which everyone can replace it.
        """
        if "-----BEGIN" in os.fsdecode(path):
            # The error would show the key.
            raise OptionError("the key file: give its path, not what is in it")
        private = _private_key(path)
        if isinstance(private, str):
            raise _refusal(path, private)
        return cls(private.private_bytes_raw())

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write the key to a new file that only you can read (mode 0600).

        Raises:
            OptionError: the file exists, cannot be written, or is in a directory in which everyone can replace it.
        """
        file = Path(os.fsdecode(path))
        text = self._private.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        try:
            _check_directory(file)
            descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError as error:
            raise _refusal(file, "it exists, and a key is never overwritten") from error
        except OSError as error:
            raise _refusal(file, f"it cannot be written ({error.strerror})") from error
        with os.fdopen(descriptor, "wb") as opened:
            opened.write(text)

    @property
    def jwk(self) -> dict[str, str]:
        """The public key as a JWK (RFC 7517, RFC 8037 §2)."""
        return {"kty": "OKP", "crv": "Ed25519", "kid": self.thumbprint, "x": self.x, "use": "sig"}

    def __deepcopy__(self, memo: object) -> Self:
        # Scrapy copies its settings, and a key never changes.
        return self

    def __repr__(self) -> str:
        return f"<SigningKey {self.thumbprint}>"


def _private_key(path: str | os.PathLike[str]) -> Ed25519PrivateKey | str:
    """The key in a file, or what is wrong with it: no frame of an error has the text of the file."""
    text = _read_private(Path(os.fsdecode(path)))
    try:
        private = serialization.load_pem_private_key(text, password=None)
    except TypeError:
        return "it is encrypted; give a key without a password"
    except (ValueError, UnsupportedAlgorithm, InternalError):
        # cryptography raises InternalError for some keys of a wrong length.
        return "it holds no private key in PEM"
    if isinstance(private, Ed25519PrivateKey):
        return private
    return "it holds a key of another kind; Ed25519 is needed"


def _read_private(file: Path) -> bytes:
    """The bytes of a file that only its owner can read."""
    try:
        _check_directory(file)
        # Without O_NONBLOCK, opening a pipe would block.
        descriptor = os.open(file, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
        with os.fdopen(descriptor, "rb") as opened:
            info = os.fstat(descriptor)
            if not stat.S_ISREG(info.st_mode):
                raise _refusal(file, "it is no regular file")
            if HAS_MODES and info.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
                mode = stat.S_IMODE(info.st_mode)
                raise _refusal(file, f"others can use it (mode {mode:04o}): chmod 600, and make a new key")
            return opened.read(MAX_PEM_BYTES)
    except OSError as error:
        raise _refusal(file, f"it cannot be read ({error.strerror})") from error


def _check_directory(file: Path) -> None:
    """Refuse a file in a directory in which everyone can put another in its place."""
    if "\0" in str(file):
        raise _refusal(file, "no file has such a name")
    # Unlike `Path.resolve`, this accepts circular links. Opening them raises OSError.
    directory = Path(os.path.realpath(file)).parent
    if HAS_MODES and directory.stat().st_mode & stat.S_IWOTH:
        raise _refusal(file, f"everyone can write to its directory {str(directory)!r}: put it elsewhere")


def _refusal(path: str | os.PathLike[str], problem: str) -> OptionError:
    return OptionError(f"the key file {os.fsdecode(path)!r}: {problem}")


def _base64url(octets: bytes) -> str:
    return urlsafe_b64encode(octets).rstrip(b"=").decode("ascii")
