"""What the commands for a machine of one's own say, and with which exit code."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import Result

from dispatchsim.calibration import hardware_target
from dispatchsim.calibration.emulated import target as emulated
from dispatchsim.calibration.emulated.kernel_build import UnfinishedBuild

Call = Callable[..., Result]


@pytest.mark.parametrize("kind", ["hardware", "emulated"])
def test_the_folder_of_another_machine_is_refused_before_anything_is_built(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    (tmp_path / "machine.json").write_text('{"id": "vax-1cpu"}')
    monkeypatch.setattr(hardware_target, "build", pytest.fail)
    monkeypatch.setattr(emulated, "kernel", pytest.fail)
    result = call("measure", "--target", kind, "--output", tmp_path)
    assert result.exit_code == 2
    assert 'machine.json: field id is "vax-1cpu", this machine is "' in result.stderr
    assert "choose another folder" in result.stderr


def test_ctrl_c_during_the_build_of_a_kernel_says_what_becomes_of_it(
    call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stopped(_progress: object) -> None:
        raise UnfinishedBuild("the kernel was not finished: the next run begins it anew")

    monkeypatch.setattr(emulated, "emulated_target", stopped)
    result = call("measure", "--target", "emulated", "--output", "counted")
    assert result.exit_code == 130
    assert result.stderr.splitlines()[-1] == (
        "stopped; the kernel was not finished: the next run begins it anew"
    )
