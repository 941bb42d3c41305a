"""Keys in files: what is refused, and why by the file's name."""

from __future__ import annotations

import os
import stat
import subprocess
import traceback
from functools import cache
from typing import TYPE_CHECKING, Final

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from robotgate import OptionError, RobotGate
from robotgate.signing import Ed25519Signer, SigningKey

if TYPE_CHECKING:
    from pathlib import Path

BOT: Final = "https://bot.example"
PEM: Final = serialization.Encoding.PEM
PKCS8: Final = serialization.PrivateFormat.PKCS8
PLAIN: Final = serialization.NoEncryption()

pytestmark = pytest.mark.skipif(os.name != "posix", reason="the modes of files say who may read them")


def write(path: Path, text: bytes, mode: int = 0o600) -> Path:
    """A file of this mode."""
    path.write_bytes(text)
    path.chmod(mode)
    return path


def pem(key: Ed25519PrivateKey | ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey) -> bytes:
    """A key as text."""
    return key.private_bytes(PEM, PKCS8, PLAIN)


def test_key_is_written_for_its_owner_and_read_again(tmp_path: Path) -> None:
    """Mode 0600 whatever the umask; the thumbprint names it."""
    key = SigningKey.generate()
    before = os.umask(0)
    try:
        key.write(tmp_path / "key.pem")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "key.pem").stat().st_mode) == 0o600
    assert SigningKey.from_pem(tmp_path / "key.pem").thumbprint == key.thumbprint
    assert Ed25519Signer.from_pem(str(tmp_path / "key.pem"), agent_url=BOT).key_id == key.thumbprint


def test_key_is_never_overwritten(tmp_path: Path) -> None:
    """Neither a file nor what a link points to."""
    old = write(tmp_path / "key.pem", b"precious")
    (tmp_path / "link.pem").symlink_to(tmp_path / "absent.pem")
    for name in ("key.pem", "link.pem"):
        with pytest.raises(OptionError, match=rf"{name}.*exists"):
            SigningKey.generate().write(tmp_path / name)
    assert old.read_bytes() == b"precious"
    assert not (tmp_path / "absent.pem").exists()


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604, 0o602, 0o660, 0o610])
def test_file_that_others_can_use_is_refused(tmp_path: Path, mode: int) -> None:
    """Its group included: who can read the key is the crawler."""
    file = write(tmp_path / "key.pem", pem(Ed25519PrivateKey.generate()), mode)
    with pytest.raises(OptionError, match=rf"key\.pem.*mode {mode:04o}"):
        Ed25519Signer.from_pem(file, agent_url=BOT)


@pytest.mark.parametrize("mode", [0o777, 0o1777])
def test_directory_in_which_everyone_writes_is_refused(tmp_path: Path, mode: int) -> None:
    """Somebody else could put a key of theirs there; a link into such a directory is no better."""
    shared = tmp_path / "shared"
    shared.mkdir()
    file = write(shared / "key.pem", pem(Ed25519PrivateKey.generate()))
    shared.chmod(mode)
    link = tmp_path / "link.pem"
    link.symlink_to(file)
    for path in (file, link):
        with pytest.raises(OptionError, match=rf"{path.name}.*everyone can write"):
            Ed25519Signer.from_pem(path, agent_url=BOT)
    with pytest.raises(OptionError, match=r"new\.pem.*everyone can write"):
        SigningKey.generate().write(shared / "new.pem")


@cache
def others() -> dict[str, bytes]:
    """Files that hold no Ed25519 key; those of RSA are dear to make."""
    key = Ed25519PrivateKey.generate()
    password = serialization.BestAvailableEncryption(b"password")
    return {
        "elliptic": pem(ec.generate_private_key(ec.SECP256R1())),
        "rsa": pem(rsa.generate_private_key(65537, 2048)),
        "public": key.public_key().public_bytes(PEM, serialization.PublicFormat.SubjectPublicKeyInfo),
        "encrypted": key.private_bytes(PEM, PKCS8, password),
        "empty": b"",
        "cut": pem(key)[:60],
        "raw": key.private_bytes_raw(),
        "large": b"x" * 1_000_000,
        # The name of Ed448, whose keys have another length: one bit of the file is wrong.
        "damaged": (
            b"-----BEGIN PRIVATE KEY-----\n"
            b"MC4CAQAwBQYDK2VxBCIEIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f\n"
            b"-----END PRIVATE KEY-----\n"
        ),
    }


def test_file_without_such_a_key_is_refused(tmp_path: Path, subtests: pytest.Subtests) -> None:
    """By name, and without a word of what is in it."""
    for kind, text in others().items():
        file = write(tmp_path / f"{kind}.pem", text)
        with subtests.test(kind), pytest.raises(OptionError, match=rf"{kind}\.pem") as caught:
            Ed25519Signer.from_pem(file, agent_url=BOT)
        assert "PRIVATE" not in str(caught.value)


@pytest.mark.parametrize("kind", ["elliptic", "rsa", "encrypted", "cut", "damaged", "readable"])
def test_key_is_in_no_variable_of_a_traceback(tmp_path: Path, kind: str) -> None:
    """Error trackers send the variables of each frame: those of the frames of an error hold nothing of the file."""
    text = pem(Ed25519PrivateKey.generate()) if kind == "readable" else others()[kind]
    file = write(tmp_path / "key.pem", text, 0o644 if kind == "readable" else 0o600)
    with pytest.raises(OptionError) as caught:
        Ed25519Signer.from_pem(file, agent_url=BOT)
    # Without the frame of this test, which has the text.
    assert caught.value.__traceback__ is not None
    frames = traceback.TracebackException(
        OptionError, caught.value, caught.value.__traceback__.tb_next, capture_locals=True
    )
    told = "".join(frames.format())
    assert "path = " in told
    assert text.splitlines()[1][:20].decode() not in told


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    """A missing file, a directory, and a pipe, which is not waited for."""
    os.mkfifo(tmp_path / "pipe.pem", 0o600)
    (tmp_path / "directory.pem").mkdir()
    (tmp_path / "circle.pem").symlink_to("circle.pem")
    for name in ("missing.pem", "pipe.pem", "directory.pem", "circle.pem", "nul\0.pem", "x" * 5_000):
        with pytest.raises(OptionError, match=repr(name)[1:4]):
            SigningKey.from_pem(tmp_path / name)
    with pytest.raises(OptionError, match="no file has such a name"):
        SigningKey.generate().write(tmp_path / "nul\0.pem")
    with pytest.raises(OptionError, match=r"missing\.pem"):
        SigningKey.from_pem(os.fsencode(tmp_path / "missing.pem"))  # type: ignore[arg-type]


def test_key_of_openssl_is_read(tmp_path: Path) -> None:
    """Its ``genpkey`` writes the same form."""
    command = ["openssl", "genpkey", "-algorithm", "ed25519", "-out", str(tmp_path / "key.pem")]
    try:
        subprocess.run(command, check=True, capture_output=True)
    except FileNotFoundError:
        pytest.skip("there is no openssl")
    (tmp_path / "key.pem").chmod(0o600)
    assert len(SigningKey.from_pem(tmp_path / "key.pem").thumbprint) == 43


@pytest.mark.parametrize("secret", [b"", b"secret", bytes(33), "secret" * 6, None])
def test_secret_of_another_length_is_refused_and_not_shown(secret: bytes) -> None:
    """Also where it is no bytes."""
    with pytest.raises(OptionError, match=r"^secret: give 32 bytes$"):
        SigningKey(secret)


def test_key_given_as_text_is_refused_and_not_shown() -> None:
    """In place of a file, of a key, and of a signer."""
    text = pem(Ed25519PrivateKey.generate()).decode()
    for give in (
        lambda: Ed25519Signer.from_pem(text, agent_url=BOT),
        lambda: Ed25519Signer(text, agent_url=BOT),  # type: ignore[arg-type]
        lambda: RobotGate("ExampleBot/1.0", contact="bot@example.org", signer=text),  # type: ignore[arg-type]
    ):
        with pytest.raises(OptionError, match=r"^(the key file|key|signer): give ") as caught:
            give()
        assert text.splitlines()[1] not in repr(caught.value)
        assert caught.value.__cause__ is None


WITHOUT_SENSE: Final = {
    "agent_url": (
        *(
            "http://bot.example",
            "bot.example",
            "https://",
            "https://bot.example/bot",
            "https://bot.example/?a",
        ),
        *(
            "https://a:b@bot.example",
            "https://b.example#a",
            1,
            'https://b"x.example',
            "https://bot.example\n",
        ),
        *("https://..", "https://bot.example:0", "https://10.1", f"https://{'a' * 64}.example"),
    ),
    "components": (
        (),
        ("@method",),
        ("@authority", "@authority"),
        ("@authority", "Date"),
        ("@authority", "@status"),
        ("@authority", "signature-agent"),
        ("@authority", "a b"),
        None,
        "@authority",
    ),
    "lifetime": (0, -1, 1.5, 86401, None),
    "label": ("", "Sig1", "1", 'a"b', "a=b", None),
    "form": ("legacy",),
}


@pytest.mark.parametrize(
    ("option", "value"), [(option, value) for option, values in WITHOUT_SENSE.items() for value in values]
)
def test_option_without_sense_is_refused_by_name(option: str, value: object) -> None:
    """As the signer is made."""
    options: dict[str, object] = {"key": SigningKey.generate(), "agent_url": BOT, option: value}
    with pytest.raises(OptionError, match=f"{option}="):
        Ed25519Signer(**options)  # type: ignore[arg-type]


def test_agent_url_is_sent_as_an_origin() -> None:
    """Without the slash or dot at its end, its default port and its capitals, and in ASCII."""
    for given, sent in {
        "https://Bot.Example/": "https://bot.example",
        "https://bot.example:443": "https://bot.example",
        "https://bot.example:8443": "https://bot.example:8443",
        "https://bücher.example": "https://xn--bcher-kva.example",
        "https://bot.example.": "https://bot.example",
        "https://[2001:DB8:0::1]": "https://[2001:db8::1]",
    }.items():
        signer = Ed25519Signer(SigningKey.generate(), agent_url=given)
        assert signer.headers("GET", "https://example.com/", 0)["Signature-Agent"] == f'"{sent}"'
