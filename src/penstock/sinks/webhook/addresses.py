"""Finds the addresses of a host, and refuses those inside networks that were not allowed.

Who may choose a name must not reach what only this machine reaches. So a name is resolved once for each connection,
every address that it has is checked, and the connection is made to an address that was: a name that means something
else a moment later changes nothing.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Iterator, Sequence
from typing import Final, TypeAlias

from penstock.errors import SinkError

Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address
Network: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network
_NAT64: Final = ipaddress.IPv6Network("64:ff9b::/96")  # the last four bytes are an address of version 4
_COMPATIBLE: Final = ipaddress.IPv6Network("::/96")  # and so they are here, long out of use


def networks_of(text: str) -> tuple[Network, ...]:
    """Read networks and addresses with commas between them; a ValueError says which one is none."""
    return tuple(_network(part.strip()) for part in text.split(",") if part.strip())


def _network(text: str) -> Network:
    """Read one network or address."""
    try:
        return ipaddress.ip_network(text)
    except ValueError:
        raise ValueError(f'has no network or address in "{text}"') from None


def checked_addresses(host: str, port: int, allowed: Sequence[Network]) -> list[str]:
    """Resolve a host to addresses that may be connected to; one that may not refuses the host."""
    found = list(dict.fromkeys(_resolved(host, port)))
    for address in found:
        if not may_be_reached(address, allowed):
            raise SinkError(
                f'"{host}" is at {address}, inside a network that is not allowed',
                hint=f"If answers are to go there, allow it: allow_networks: {address.split('%')[0]}.",
            )
    return found


def _resolved(host: str, port: int) -> Iterator[str]:
    """List all addresses of a host."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no name of a host"
        raise SinkError(f'the host "{host}" is not found: {reason}') from None
    return (str(address[0]) for *_, address in found)


def may_be_reached(text: str, allowed: Sequence[Network]) -> bool:
    """Tell whether an address is public, or in a network that is allowed; what stands for another one is as that is.

    >>> may_be_reached("8.8.8.8", ()), may_be_reached("10.0.0.1", ()), may_be_reached("::ffff:127.0.0.1", ())
    (True, False, False)
    """
    address = ipaddress.ip_address(text.split("%")[0])
    return all(_is_public(one) or any(_within(one, network) for network in allowed) for one in _meant(address))


def _is_public(address: Address) -> bool:
    """Tell whether everybody can reach an address."""
    return address.is_global and not address.is_multicast and not address.is_reserved


def _within(address: Address, network: Network) -> bool:
    """Tell whether an address is in a network of its version."""
    return address.version == network.version and address in network


def _meant(address: Address) -> Iterator[Address]:
    """List what an address leads to: an address of version 4 that is written in it, or else itself."""
    if isinstance(address, ipaddress.IPv4Address):
        yield address
        return
    inside = [address.ipv4_mapped, address.sixtofour, *(address.teredo or ())]
    if address in _NAT64 or (address in _COMPATIBLE and int(address) > 1):
        inside.append(ipaddress.IPv4Address(int(address) & 0xFFFFFFFF))
    known = [one for one in inside if one is not None]
    yield from known or [address]
