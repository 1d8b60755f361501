"""Metrics of one process: made from specs, mirrored from totals, scraped over HTTP."""

from __future__ import annotations

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer
from prometheus_client.parser import text_string_to_metric_families

from serve.metrics import (
    Label,
    Mirror,
    Spec,
    counter,
    exposition,
    gauge,
    histogram,
    metrics_handler,
    new_registry,
)
from serve.metrics_page import metrics_page

HITS = Spec(name="gpufence_hits_total", kind="counter", help="Hits.", labels=(Label("kind", ("a", "b")),))
DEPTH = Spec(name="gpufence_depth", kind="gauge", help="Depth.", merge="livemax")
WAIT = Spec(name="gpufence_wait_seconds", kind="histogram", help="Wait.", buckets=(0.1, 1.0))


@pytest.fixture
def registry():
    return new_registry()


def families(body):
    return {family.name: family for family in text_string_to_metric_families(body.decode())}


def samples(body):
    return {
        (sample.name, *sorted(sample.labels.values())): sample.value
        for family in families(body).values()
        for sample in family.samples
    }


def test_what_was_counted_is_in_the_text_with_its_type_and_help(registry):
    counter(HITS, registry).labels("a").inc(2)
    gauge(DEPTH, registry).set(7)
    histogram(WAIT, registry).observe(0.5)
    body, content_type = exposition(registry)
    assert content_type.startswith("text/plain; version=0.0.4")
    found = samples(body)
    assert found["gpufence_hits_total", "a"] == 2
    assert found["gpufence_depth",] == 7
    assert found["gpufence_wait_seconds_bucket", "0.1"] == 0
    assert found["gpufence_wait_seconds_bucket", "1.0"] == 1
    told = {family.name: (family.type, family.documentation) for family in families(body).values()}
    assert told == {
        "gpufence_hits": ("counter", "Hits."),
        "gpufence_depth": ("gauge", "Depth."),
        "gpufence_wait_seconds": ("histogram", "Wait."),
    }


def test_there_is_no_second_series_that_says_when_a_counter_was_made(registry):
    counter(HITS, registry).labels("a")
    histogram(WAIT, registry)
    assert b"_created" not in exposition(registry)[0]


def test_two_registries_know_nothing_of_each_other(registry):
    counter(HITS, registry).labels("a").inc()
    assert exposition(new_registry())[0] == b""


class TestAMirror:
    @pytest.fixture
    def child(self, registry):
        return counter(HITS, registry).labels("a")

    def value(self, registry):
        return registry.get_sample_value("gpufence_hits_total", {"kind": "a"})

    def test_raises_the_counter_to_the_total(self, registry, child):
        mirror = Mirror(child)
        for total in (0, 3, 3, 5):
            mirror.follow(total)
            assert self.value(registry) == total

    def test_takes_a_smaller_total_for_that_of_an_object_made_anew(self, registry, child):
        mirror = Mirror(child)
        for total, value in ((5, 5), (2, 7), (3, 8), (0, 8), (1, 9)):
            mirror.follow(total)
            assert self.value(registry) == value


async def test_a_scrape_over_http_is_text_that_a_parser_reads(registry):
    counter(HITS, registry).labels("b").inc()
    app = web.Application()
    app.router.add_get("/metrics", metrics_handler(registry))
    async with TestClient(TestServer(app)) as client, client.get("/metrics") as response:
        assert response.status == 200
        assert response.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
        assert samples(await response.read()) == {("gpufence_hits_total", "b"): 1}


async def test_a_scrape_that_cannot_be_consistent_is_a_503(registry, tmp_path):
    app = web.Application()
    app.router.add_get("/metrics", metrics_handler(registry, tmp_path / "gone"))
    async with TestClient(TestServer(app)) as client, client.get("/metrics") as response:
        assert response.status == 503


def test_the_page_has_a_section_for_each_metric_with_type_labels_and_help():
    page = metrics_page({"gpufence x run": (HITS, WAIT)})
    assert "\n### `gpufence_hits_total`\n\nCounter. Hits.\n\n- `kind`: `a`, `b`\n" in page
    assert "Buckets up to 0.1, 1." in page
