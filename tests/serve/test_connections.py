"""The number of connections is bounded, and the silent ones make room."""

from __future__ import annotations

import asyncio

import pytest

from serve.connections import Connections


class Transport(asyncio.Transport):
    aborted = False

    def abort(self):
        self.aborted = True


def opened(connections):
    transport, protocol = Transport(), connections()
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


async def test_where_every_connection_has_a_request_the_new_one_is_closed(connections):
    held = [opened(connections), opened(connections)]
    for _, protocol in held:
        protocol.begin()
    late, _ = opened(connections)
    assert late.aborted
    assert not any(transport.aborted for transport, _ in held)
    held[0][1].end()
    assert not opened(connections)[0].aborted


async def test_a_client_that_takes_its_answer_in_time_is_left_alone():
    connections = Connections(asyncio.Protocol, 0)
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
