"""What every test may use: small robots, targets that are reachable by construction."""

from __future__ import annotations

import os

# Before numpy is imported: threads cost time on matrices this small, and results must not depend
# on how many cores the machine has.
for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

import pytest

from optik.robot import Robot, bundled_robots

# One of each kind: a plane, a redundant plane, five joints with positions only, seven with limits,
# seven of which four are unlimited.
CONTRACT_ROBOTS = ("arm2", "planar2_2_1", "so101", "panda", "gen3")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--every-robot", action="store_true", help="the contract on every robot")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "contract_robot" in metafunc.fixturenames:
        every = metafunc.config.getoption("--every-robot")
        names = bundled_robots() if every else [n for n in CONTRACT_ROBOTS if n in bundled_robots()]
        metafunc.parametrize("contract_robot", names)


@pytest.fixture(scope="session")
def arm7() -> Robot:
    return Robot.load("arm7")
