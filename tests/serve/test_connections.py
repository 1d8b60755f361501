"""The number of connections is bounded, and the silent ones make room."""

from __future__ import annotations

import asyncio

import pytest

from serve.connections import Connections


class Transport(asyncio.Transport):
    def __init__(self, peer):
        super().__init__({"peername": (peer, 1)})
        self.aborted = False

    def abort(self):
        self.aborted = True


def opened(connections, peer="10.0.0.1"):
    transport, protocol = Transport(peer), connections()
    protocol.connection_made(transport)
    return transport, protocol


@pytest.fixture
def connections():
    return Connections(asyncio.Protocol, 60, most=2)


async def test_a_new_connection_takes_the_place_of_the_longest_silent_one(connections):
    (first, speaks), (second, _) = opened(connections), opened(connections)
    speaks.data_received(b"x")
    third, _ = opened(connections)
    assert [each.aborted for each in (first, second, third)] == [False, True, False]
    assert len(connections) == 2
    speaks.connection_lost(None)
    assert len(connections) == 1


async def test_who_holds_most_loses_one_also_where_it_sends_slowly_and_the_others_are_idle():
    connections = Connections(asyncio.Protocol, 60, most=4)
    honest, _ = opened(connections, "10.0.0.1")
    greedy = [opened(connections, "10.0.0.9") for _ in range(3)]
    for _, protocol in greedy:
        protocol.data_received(b"POST")
        protocol.begin()
    other, _ = opened(connections, "10.0.0.2")
    assert not honest.aborted
    assert not other.aborted
    assert [transport.aborted for transport, _ in greedy] == [True, False, False]
    opened(connections, "10.0.0.9")
    assert not honest.aborted


async def test_a_client_that_takes_its_answer_in_time_is_left_alone():
    connections = Connections(asyncio.Protocol, 0, most=9)
    transport, protocol = opened(connections)
    protocol.pause_writing()
    protocol.resume_writing()
    protocol.data_received(b"GET")
    protocol.begin()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert not transport.aborted
    protocol.pause_writing()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert transport.aborted
