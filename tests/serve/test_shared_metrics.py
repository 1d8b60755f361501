"""Metrics of several workers: real processes that count, and what a scrape says while they live and when they died."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from policy.errors import WorldError
from serve.metrics import exposition, new_registry
from serve.shared_metrics import SharedMetrics, UnsettledError, forget_worker, restore, shared_directory

ROOT = Path(__file__).parents[2]
# A parent as in production: it has everything imported before it asks for the directory, then forks. Commands come
# by stdin, answers go by stdout: "fork", "do <pid> <code>", "kill <pid>", "scrape <pid>", "names".
PARENT = """
import os, signal, sys
from serve.metrics import Label, Spec, counter, exposition, gauge, histogram, new_registry
from serve.shared_metrics import forget_worker, shared_directory

HITS = Spec(name="t_hits_total", kind="counter", help="H.", labels=(Label("kind"),))
WAIT = Spec(name="t_wait_seconds", kind="histogram", help="W.", buckets=(0.1, 1.0))
GAUGES = [Spec(name=f"t_{m}", kind="gauge", help="G.", merge=m) for m in ("livesum", "livemin", "livemax")]

def work(shared, orders, answers):
    registry = new_registry()
    hits, wait = counter(HITS, registry), histogram(WAIT, registry)
    gauges = [gauge(spec, registry) for spec in GAUGES]
    a = hits.labels("a")
    def scrape():
        return exposition(registry, shared)[0].decode()
    def set_all(value):
        for each in gauges:
            each.set(value)
    for order in orders:
        found = eval(order, {**globals(), **locals()})
        answers.write(repr(found) + "\\n")
        answers.flush()

workers = {}
with shared_directory() as shared:
    print(shared, flush=True)
    for line in sys.stdin:
        verb, _, rest = line.strip().partition(" ")
        if verb == "fork":
            order_r, order_w = os.pipe()
            answer_r, answer_w = os.pipe()
            pid = os.fork()
            if pid == 0:
                work(shared, os.fdopen(order_r), os.fdopen(answer_w, "w"))
                os._exit(0)
            workers[pid] = os.fdopen(order_w, "w"), os.fdopen(answer_r)
            print(pid, flush=True)
        elif verb == "do":
            pid, _, code = rest.partition(" ")
            orders, answers = workers[int(pid)]
            orders.write(code + "\\n")
            orders.flush()
            print(answers.readline().strip(), flush=True)
        elif verb == "kill":
            os.kill(int(rest), signal.SIGKILL)
            os.waitpid(int(rest), 0)
            print(forget_worker(int(rest), shared), flush=True)
    for pid in workers:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
"""


class Crew:
    """A parent with workers, told what to do line by line."""

    def __init__(self, popen):
        self._popen = popen
        self.shared = Path(self._answer())

    def _answer(self):
        answer = self._popen.stdout.readline().strip()
        assert answer, "the parent ended"
        return answer

    def _ask(self, line):
        self._popen.stdin.write(line + "\n")
        self._popen.stdin.flush()
        return self._answer()

    def fork(self):
        """Start a worker that has made its metrics; return its pid."""
        pid = int(self._ask("fork"))
        self.do(pid, "0")
        return pid

    def do(self, pid, code):
        return self._ask(f"do {pid} {code}")

    def kill(self, pid):
        return self._ask(f"kill {pid}")

    def scrape(self, pid):
        """Return {(name, label values...): value} as a worker answers a scrape."""
        text = eval(self.do(pid, "scrape()"))  # noqa: S307 - the repr of a str
        return {
            (sample.name, *sample.labels.values()): sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
        }

    def files(self):
        return sorted(path.name for path in self.shared.iterdir())

    def end(self):
        self._popen.stdin.close()
        return self._popen.wait()


@pytest.fixture
def crew():
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PROMETHEUS_")}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(
        [sys.executable, "-W", "error", "-c", PARENT],
        cwd=ROOT,
        env={**kept, "PYTHONPATH": str(ROOT)},
        **pipes,
    ) as popen:
        found = Crew(popen)
        try:
            yield found
        finally:
            if not popen.stdin.closed:
                popen.stdin.close()


class TestWhileTheWorkersLive:
    def test_any_of_them_answers_with_the_sum_of_all(self, crew):
        pids = [crew.fork() for _ in range(3)]
        for times, pid in enumerate(pids, start=1):
            crew.do(pid, f"a.inc({times})")
            crew.do(pid, f"wait.observe({times / 10})")
        for pid in pids:
            found = crew.scrape(pid)
            assert found["t_hits_total", "a"] == 6
            assert found["t_wait_seconds_count",] == 3
            assert found["t_wait_seconds_sum",] == pytest.approx(0.6)
            assert found["t_wait_seconds_bucket", "0.1"] == 1
            assert found["t_wait_seconds_bucket", "1.0"] == 3
            assert found["t_wait_seconds_bucket", "+Inf"] == 3

    def test_gauges_are_the_sum_the_smallest_or_the_largest_without_a_pid(self, crew):
        first, second = crew.fork(), crew.fork()
        crew.do(first, "set_all(3)")
        crew.do(second, "set_all(5)")
        found = crew.scrape(first)
        assert (found["t_livesum",], found["t_livemin",], found["t_livemax",]) == (8, 3, 5)

    def test_the_series_are_those_of_one_worker(self, crew):
        first = crew.fork()
        alone = set(crew.scrape(first))
        crew.fork()
        assert set(crew.scrape(first)) == alone


class TestOnceAWorkerHasDied:
    def test_its_gauges_vanish_and_what_it_counted_stays(self, crew):
        first, second = crew.fork(), crew.fork()
        for pid, value in ((first, 1), (second, 10)):
            crew.do(pid, f"set_all({value})")
            crew.do(pid, f"a.inc({value})")
            crew.do(pid, f"wait.observe({value})")
        assert crew.kill(first) == "True"
        found = crew.scrape(second)
        assert (found["t_livesum",], found["t_livemin",], found["t_livemax",]) == (10, 10, 10)
        assert found["t_hits_total", "a"] == 11
        assert found["t_wait_seconds_count",] == 2
        assert found["t_wait_seconds_bucket", "1.0"] == 1

    def test_many_deaths_leave_no_more_files_than_one(self, crew):
        last = crew.fork()
        counts = []
        for _ in range(4):
            pid = crew.fork()
            crew.do(pid, "a.inc()")
            crew.kill(pid)
            counts.append(len(crew.files()))
        assert len(set(counts)) == 1, crew.files()
        assert crew.scrape(last)["t_hits_total", "a"] == 4

    def test_one_that_counted_nothing_changes_nothing(self, crew):
        last = crew.fork()
        crew.do(last, "a.inc()")
        crew.kill(crew.fork())
        assert crew.scrape(last)["t_hits_total", "a"] == 1

    def test_a_file_that_it_left_empty_does_not_stop_the_scrapes(self, crew):
        last, pid = crew.fork(), crew.fork()
        (crew.shared / f"counter_{pid}.db").write_bytes(b"")
        assert crew.kill(pid) == "False"
        assert ("t_wait_seconds_count",) in crew.scrape(last)


def test_the_directory_is_private_and_gone_once_the_parent_has_ended(crew):
    assert crew.shared.stat().st_mode & 0o777 == 0o700
    crew.fork()
    assert crew.end() == 0
    assert not crew.shared.exists()


class TestWithoutWorkers:
    @pytest.fixture(autouse=True)
    def environment(self, monkeypatch):
        monkeypatch.delenv("PROMETHEUS_MULTIPROC_DIR", raising=False)

    def test_the_choice_of_the_library_is_as_before_after_the_block(self, tmp_path):
        from prometheus_client import values

        before = values.ValueClass
        with shared_directory(tmp_path) as shared:
            assert values.ValueClass is not before
            assert os.environ["PROMETHEUS_MULTIPROC_DIR"] == str(shared)
        assert values.ValueClass is before
        assert "PROMETHEUS_MULTIPROC_DIR" not in os.environ

    def test_a_directory_that_cannot_be_made_is_a_clear_error(self, tmp_path):
        with (
            pytest.raises(WorldError, match="cannot make a directory for metrics in"),
            shared_directory(tmp_path / "absent"),
        ):
            pass

    def test_no_place_for_temporary_files_is_a_clear_error(self, monkeypatch):
        import tempfile

        monkeypatch.setattr(tempfile, "tempdir", None)
        monkeypatch.setattr(tempfile, "_candidate_tempdir_list", lambda: ["/nonexistent"])
        with (
            pytest.raises(WorldError, match="metrics: No usable temporary directory found"),
            shared_directory(),
        ):
            pass

    def test_a_scrape_waits_while_files_are_folded_and_then_gives_up(self, tmp_path):
        with shared_directory(tmp_path) as shared:
            (shared / "edition").write_bytes((1).to_bytes(8, "little"))
            pauses = []
            with pytest.raises(UnsettledError, match="ask again"):
                SharedMetrics(shared, pauses.append).collect()
            assert sum(pauses) == pytest.approx(0.1)

    def test_a_scrape_during_a_fold_reads_again_after_it(self, tmp_path):
        with shared_directory(tmp_path) as shared:
            (shared / "edition").write_bytes((1).to_bytes(8, "little"))

            def settle(_):
                (shared / "edition").write_bytes((2).to_bytes(8, "little"))

            assert SharedMetrics(shared, settle).collect() == []

    def test_forgetting_never_fails(self, tmp_path):
        assert not forget_worker(1, tmp_path / "absent")
        with shared_directory(tmp_path) as shared:
            assert forget_worker(1, shared)
            assert exposition(new_registry(), shared)[0] == b""


class TestWhatAKilledParentLeft:
    def test_is_removed_by_the_next_one(self, tmp_path):
        left = tmp_path / "gpufence-metrics-left"
        left.mkdir()
        (left / "counter_1.db").write_bytes(b"x")
        old(left)
        with shared_directory(tmp_path) as made:
            assert [path.name for path in tmp_path.iterdir()] == [made.name]

    def test_stays_while_it_is_in_use_or_young_or_somebody_elses_file(self, tmp_path):
        young = tmp_path / "gpufence-metrics-young"
        young.mkdir()
        file = tmp_path / "gpufence-metrics-file"
        file.touch()
        link = tmp_path / "gpufence-metrics-link"
        link.symlink_to(tmp_path)
        with shared_directory(tmp_path) as first:
            old(first)
            with shared_directory(tmp_path):
                assert first.exists()
        assert young.exists()
        assert file.exists()
        assert link.is_symlink()


def old(path):
    os.utime(path, (0, 0))


def test_a_directory_that_something_removed_is_made_again(tmp_path):
    with shared_directory(tmp_path) as shared:
        shutil.rmtree(shared)
        restore(shared)
        assert exposition(new_registry(), shared)[0] == b""
        assert shared.stat().st_mode & 0o777 == 0o700
