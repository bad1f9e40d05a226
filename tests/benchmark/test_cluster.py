"""A Dask cluster gives the rows of one process, also when a worker is lost."""

import os
import signal
import threading
import time

import distributed
import pandas as pd
import pytest

import optik
from optik.benchmark.columns import TIMES
from optik.benchmark.run import run

FEW = optik.load_problem_set("arm7_lesson").first(12)
SOLVERS = ["clamped-dls", "clamped-dls:damping=0.1"]


@pytest.fixture(scope="module")
def cluster():
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, dashboard_address=None, silence_logs=50
    ) as cluster:
        yield cluster


def same(a, b):
    drop = [*TIMES, "timing"]
    pd.testing.assert_frame_equal(a.drop(columns=drop), b.drop(columns=drop))


def test_a_cluster_gives_the_rows_of_one_process(cluster, tmp_path):
    frame = run([FEW], SOLVERS, scheduler=cluster.scheduler_address, out=tmp_path / "run")
    same(frame, run([FEW], SOLVERS, isolate=False))
    assert (frame["timing"] == "parallel").all()


# The killed worker's own pipes are left to the garbage collector by distributed.
@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_a_lost_worker_loses_no_row(cluster):
    def slow(problem):
        time.sleep(0.05)
        return problem.q_start

    workers = dict(cluster.scheduler_info["workers"])
    assert len(workers) == 2
    victim = next(iter(cluster.workers.values())).pid
    timer = threading.Timer(0.7, os.kill, (victim, signal.SIGKILL))
    timer.start()
    frame = run([FEW], [slow], scheduler=cluster.scheduler_address, repeats=4, isolate=False)
    timer.join()
    same(frame, run([FEW], [slow], repeats=4, isolate=False))


def test_a_solver_that_dies_takes_no_worker_with_it(cluster):
    where = FEW.positions[5][0]

    def dies(problem):
        if problem.targets[0].position[0] == where:
            os._exit(3)
        return problem.q_start

    frame = run([FEW], [dies], scheduler=cluster.scheduler_address)
    lost = frame[frame["claim"] == ""]
    assert lost["problem"].tolist() == [5]
    assert lost["reason"].iloc[0] == "its process exited with code 3"
