"""A slow scan among talkative hosts: traffic in which one host tries address after address, too slowly for a burst."""

from __future__ import annotations

import numpy as np

from tdlg.edges import TemporalEdges

__all__ = ["RATES", "SEEDS", "slow_scan"]

RATES = (2, 5, 10)  # addresses an hour
SEEDS = (0, 1, 2)

_HOSTS, _DAYS, _SERVERS, _ADDRESSES = 500, 6, 3000, 60_000
_SESSIONS, _LENGTH = 18.0, 6.0  # of a host: sessions a day, connections a session
_HABITS, _ELSEWHERE = 25, 0.03  # servers of a host, and the share of its connections to others
_HOUR, _DAY = 3600.0, 86_400.0


def slow_scan(rate: float, seed: int) -> TemporalEdges:
    """Connections of 500 hosts in six days, labelled 1 where one of them scans.

    A host connects in sessions, by day more than by night, to 25 servers of its own of which some are liked by all, and
    with one connection in 33 to any other server. After three days one of the hosts, which goes on with what it always did,
    also tries addresses that are drawn from 60,000, at random times.
    """
    rng = np.random.default_rng(seed)
    busy = rng.lognormal(0.0, 0.7, _HOSTS)
    n_sessions = rng.poisson(busy / busy.mean() * _SESSIONS * _DAYS)
    host = np.repeat(np.arange(_HOSTS), n_sessions)
    start = rng.integers(_DAYS, size=len(host)) * _DAY + (rng.normal(13.5, 4.0, len(host)) % 24) * _HOUR
    n_connections = rng.geometric(1 / _LENGTH, len(host))
    session = np.repeat(np.arange(len(host)), n_connections)
    src = host[session]
    time = start[session] + rng.exponential(4 * 60, len(session)) * (1 + rng.random(len(session)))
    liked = 1.0 / np.arange(1, _SERVERS + 1)
    liked /= liked.sum()
    habits = np.array([rng.choice(_SERVERS, _HABITS, replace=False, p=liked) for _ in range(_HOSTS)])
    often = 1.0 / np.arange(1, _HABITS + 1)
    dst = habits[src, rng.choice(_HABITS, len(src), p=often / often.sum())]
    elsewhere = rng.random(len(src)) < _ELSEWHERE
    dst[elsewhere] = rng.choice(_SERVERS, elsewhere.sum(), p=liked)

    scanner = int(np.argsort(busy)[_HOSTS // 2])
    begin = _DAYS / 2 * _DAY
    n_tried = rng.poisson(rate * (_DAYS * _DAY - begin) / _HOUR)
    tried = begin + rng.random(n_tried) * (_DAYS * _DAY - begin)
    src = np.append(src, np.full(n_tried, scanner))
    dst = np.append(dst, _SERVERS + rng.integers(_ADDRESSES, size=n_tried))
    time, label = np.append(time, tried), np.append(np.zeros(len(elsewhere), int), np.ones(n_tried, int))
    order = np.argsort(time, kind="stable")
    names = np.array([f"host {k}" for k in range(_HOSTS)])
    servers = np.array([f"server {k}" for k in range(_SERVERS + _ADDRESSES)])
    return TemporalEdges(names[src[order]], servers[dst[order]], time[order], label=label[order])
