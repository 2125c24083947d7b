"""The run folder: identity, exclusive use, reading what a killed run left."""

import errno
import hashlib
import json
import os

import msgspec
import pytest

from edge_fed.config import RunConfig
from edge_fed.errors import ConfigError
from edge_fed.program.exit_codes import ExitCode, ProgramError
from edge_fed.program.run_folder import RunFolder


def test_a_created_folder_opens_again_with_the_same_identity(tmp_path):
    """Run id and configuration survive the process."""
    made = RunFolder.create(RunConfig(seed=5), tmp_path / "run")
    again = RunFolder.open(tmp_path / "run")
    assert (again.run_id, again.config) == (made.run_id, RunConfig(seed=5))


def test_an_occupied_folder_is_not_written_into(tmp_path):
    """A folder with anything in it is refused with the way out."""
    (tmp_path / "thesis.txt").write_text("mine")
    with pytest.raises(ProgramError, match="not empty") as refused:
        RunFolder.create(RunConfig(), tmp_path)
    assert refused.value.code == ExitCode.USAGE
    assert (tmp_path / "thesis.txt").read_text() == "mine"


def test_overwrite_removes_a_run_but_never_other_files(tmp_path):
    """--overwrite replaces an earlier run; a folder that is no run stays refused."""
    first = RunFolder.create(RunConfig(), tmp_path / "run")
    second = RunFolder.create(RunConfig(), tmp_path / "run", overwrite=True)
    assert first.run_id != second.run_id
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "file").touch()
    with pytest.raises(ProgramError, match="not empty"):
        RunFolder.create(RunConfig(), tmp_path / "other", overwrite=True)


def test_one_server_per_folder(tmp_path):
    """The second lock is refused while the first is held, and granted afterwards."""
    folder = RunFolder.create(RunConfig(), tmp_path / "run")
    with folder.locked():
        with pytest.raises(ProgramError, match="in use"), folder.locked():
            pass
        with pytest.raises(ProgramError, match="in use"):
            RunFolder.create(RunConfig(), tmp_path / "run", overwrite=True)
    with folder.locked():
        pass


@pytest.mark.parametrize("broken", ["missing", "empty", "json", "config"])
def test_a_folder_that_cannot_be_read_says_why(tmp_path, broken):
    """Missing and damaged folders end in one typed error."""
    path = tmp_path / "run"
    if broken != "missing":
        RunFolder.create(RunConfig(), path)
        target = path / ("config.json" if broken == "config" else "run.json")
        target.write_text({"empty": "", "json": "{", "config": '{"algorithm": {"rounds": -1}}'}[broken])
    with pytest.raises(ProgramError) as refused:
        RunFolder.open(path)
    assert refused.value.code == ExitCode.USAGE
    assert str(path) in refused.value.message


def test_a_torn_last_line_is_left_out(tmp_path):
    """What kill -9 cut in half is not read as data."""
    folder = RunFolder.create(RunConfig(), tmp_path / "run")
    folder.metrics.write_bytes(b'{"round": 1}\n{"round": 2}\n{"rou')
    assert list(folder.rows(folder.metrics)) == [{"round": 1}, {"round": 2}]
    assert list(folder.rows(folder.evaluations)) == []


def test_the_sidecar_is_the_commit(tmp_path):
    """An array file without its JSON is no checkpoint."""
    folder = RunFolder.create(RunConfig(), tmp_path / "run")
    for round_, committed in [(1, True), (2, True), (3, False)]:
        array, sidecar = folder.checkpoint(round_)
        array.touch()
        if committed:
            sidecar.write_bytes(msgspec.json.encode({}))
    assert folder.committed_rounds() == [1, 2]


def test_runs_that_begin_in_one_second_get_folders_of_their_own(tmp_path, monkeypatch):
    """The default name is numbered on when it is taken."""
    monkeypatch.chdir(tmp_path)
    folders = [RunFolder.create(RunConfig()) for _ in range(3)]
    assert len({folder.path for folder in folders}) == 3


def test_a_configuration_changed_afterwards_is_refused(tmp_path):
    """A run's settings are part of its identity: nobody resumes or verifies it with others."""
    folder = RunFolder.create(RunConfig(seed=7), tmp_path / "run")
    settings = folder.path / "config.json"
    settings.write_text(settings.read_text().replace('"seed": 7', '"seed": 8'))
    with pytest.raises(ProgramError, match="changed after the run began"):
        RunFolder.open(folder.path)


def test_a_stray_file_among_the_checkpoints_is_no_checkpoint(tmp_path):
    """Only numbered sidecars count."""
    folder = RunFolder.create(RunConfig(), tmp_path / "run")
    for name in ("round-abc.json", "round-000004.json", "round-.json"):
        (folder.checkpoints / name).write_text("{}")
    assert folder.committed_rounds() == [4]


def test_a_folder_that_cannot_be_locked_says_so(tmp_path):
    """What the system refuses becomes one typed error."""
    folder = RunFolder.create(RunConfig(), tmp_path / "run")
    (folder.path / "lock").mkdir()
    with pytest.raises(ProgramError, match="cannot be written"), folder.locked():
        pass


def test_a_file_system_without_locks_is_not_blamed_on_another_server(tmp_path, monkeypatch):
    """[complaints 63] NFS without a lock service: what the system says, and a folder that works."""

    def refuse(_descriptor, _operation):
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    folder = RunFolder.create(RunConfig(), tmp_path / "run")
    monkeypatch.setattr("fcntl.flock", refuse)
    with (
        pytest.raises(ProgramError, match="cannot be locked: No locks available") as refused,
        folder.locked(),
    ):
        pass
    assert "local disk" in refused.value.hint


def edited(folder, text, instead):
    """Other settings, with the hash that belongs to them."""
    settings = folder.path / "config.json"
    content = settings.read_text()
    assert text in content
    settings.write_text(content.replace(text, instead))
    identity = json.loads((folder.path / "run.json").read_text())
    identity["config_sha256"] = hashlib.sha256(settings.read_bytes()).hexdigest()
    (folder.path / "run.json").write_text(json.dumps(identity))
    return RunFolder.open(folder.path)


@pytest.mark.parametrize(
    ("text", "instead", "path"),
    [
        ('"family": "navigation"', '"family": "navigatoin"', "environment.family"),
        ('"variant": "first_order"', '"variant": "best"', "algorithm.variant"),
        ('"goals": "6-8"', '"goals": "600"', "onboarding.goals"),
    ],
)
def test_settings_that_were_edited_with_their_hash_are_checked_again(tmp_path, text, instead, path):
    """Every fault by its key, as at the start of a run."""
    folder = RunFolder.create(RunConfig(), tmp_path / "run")
    folder.check()
    with pytest.raises(ConfigError, match=path) as caught:
        edited(folder, text, instead).check()
    assert caught.value.source.endswith("config.json")
