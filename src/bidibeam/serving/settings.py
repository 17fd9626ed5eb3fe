"""How the server serves: limits of requests, batching, and who may ask."""

from __future__ import annotations

import ipaddress
import math
import re
from dataclasses import dataclass, field

from bidibeam.errors import SettingsError, check_setting

LOCAL_NAMES = ("localhost",)
HOST = re.compile(r"(?:\[([^\[\]]+)\]|([^:\[\]]+))(?::\d{1,5})?")
"""A Host header: a name or an address, an IPv6 one in brackets, and perhaps a port."""
LARGEST = 1_000_000_000
TOLD = "told"
"""The key of a limit's metadata: what help says of it."""


def _limit(default: int, told: str) -> int:
    """Returns a field of `RequestLimits`, with what help says of it."""
    limit: int = field(default=default, metadata={TOLD: told})
    return limit


@dataclass(frozen=True)
class RequestLimits:
    """The most that one request may ask for, a flag --max-... each; more is refused by name."""

    body_bytes: int = _limit(4_000_000, "Bytes of a request.")
    sources: int = _limit(64, "Sources, prompts or lists of a request.")
    source_characters: int = _limit(10_000, "Characters of a source.")
    hypothesis_characters: int = _limit(2_000, "Characters, or tokens, of a hypothesis that is sent.")
    hypotheses: int = _limit(200, "Hypotheses of a list that is sent, in each direction.")
    beam_size: int = _limit(100, "The widest beam that may be asked for.")
    reply_tokens: int = _limit(256, "The largest T that may be asked for: max_length, max_tokens.")

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            check_setting(1 <= value <= LARGEST, name, value, "a whole number of at least 1")


@dataclass(frozen=True)
class ServerSettings:
    """How the server serves.

    Attributes:
        host: The address it listens at.
        api_key: What clients send as `Authorization: Bearer KEY`; None where anybody on this machine may ask.
        allowed_hosts: Names besides `host` and localhost by which clients may call it.
        allowed_origins: Origins of other pages that may ask from a browser; none by default.
        max_batch: The most sources that are searched together.
        max_wait_ms: How long a source waits for others while the worker is idle.
        queue: The most sources that wait; further requests are refused with 429.
        timeout_s: How long a request may take, its time in the queue included.
        logs_texts: Whether logs hold sources and replies.
        examples: Sources that the page offers to try.
        limits: The most that one request may ask for.
    """

    host: str = "127.0.0.1"
    api_key: str | None = field(default=None, repr=False)
    allowed_hosts: tuple[str, ...] = ()
    allowed_origins: tuple[str, ...] = ()
    max_batch: int = 16
    max_wait_ms: float = 2.0
    queue: int = 256
    timeout_s: float = 60.0
    logs_texts: bool = False
    examples: tuple[str, ...] = ()
    limits: RequestLimits = field(default_factory=RequestLimits)

    def __post_init__(self) -> None:
        for name in ("max_batch", "queue"):
            value = getattr(self, name)
            check_setting(1 <= value <= LARGEST, name, value, "a whole number of at least 1")
        is_wait = math.isfinite(self.max_wait_ms) and 0 <= self.max_wait_ms <= 60_000
        check_setting(is_wait, "max_wait_ms", self.max_wait_ms, "between 0 and 60,000")
        is_timeout = math.isfinite(self.timeout_s) and 0 < self.timeout_s <= 86_400
        check_setting(is_timeout, "timeout_s", self.timeout_s, "above 0 and at most 86,400")
        if self.queue < self.limits.sources:
            raise SettingsError(
                f"queue must be at least max_sources, {self.limits.sources}, not {self.queue}."
            )
        if self.api_key is not None and not (self.api_key.strip() and self.api_key.isascii()):
            raise SettingsError("api_key must be ASCII and not blank: clients send it in a header.")
        if self.api_key is None and not is_local(self.host):
            raise SettingsError(
                f"At {self.host} others can reach the server, and no key protects it: give api_key (or set "
                "BIDIBEAM_API_KEY), or listen at 127.0.0.1."
            )

    def allows_host(self, header: str) -> bool:
        """Whether a client may call the server by this Host header.

        Addresses and localhost may always be used. Another name must be allowed: a page from elsewhere could
        make its own name point at this machine, and so ask in its reader's name.
        """
        name = _strip_port(header).lower().rstrip(".")
        if name in {*LOCAL_NAMES, self.host.lower(), *map(str.lower, self.allowed_hosts)}:
            return True
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return False
        return True


def is_local(host: str) -> bool:
    """Whether only this machine reaches what listens at an address."""
    if host.lower() in LOCAL_NAMES:
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _strip_port(header: str) -> str:
    found = HOST.fullmatch(header)
    return "" if found is None else found[1] or found[2]
