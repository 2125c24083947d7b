"""One small valid message of every type."""

from protocol import messages as m

HASH = "ab" * 32
ID = bytes(range(16))

SAMPLES: dict[type[m.Message], m.Message] = {
    type(message): message
    for message in (
        m.Register(agent=3, incarnation=ID),
        m.Welcome(role="train", config={"seed": 1}, limits={"lease_s": 5.0}, initial_sha256=HASH),
        m.Reject(reason="unknown_goal", message="goal 99 does not exist; goals are 0 to 8"),
        m.Ready(dimension=360, schema_sha256=HASH, initial_sha256=HASH, fingerprint="probe 1"),
        m.Theta(round=1, crc32=5, deadline_s=60.0),
        m.Update(round=1, theta_crc32=5, crc32=6, trajectories=100, trajectories_spent=100),
        m.Ack(round=1, outcome="held"),
        m.Heartbeat(phase="training", progress=2, round=1),
        m.Evaluate(round=0, crc32=5),
        m.Onboard(),
        m.Init(round=150, crc32=5, final=True),
        m.Report(kind="evaluation", round=0, rows=({"expected_return": 0.25},), trajectories=512),
        m.Ping(),
        m.Pong(),
        m.Superseded(message="another process took goal 3 over"),
        m.Error(code="malformed"),
        m.Shutdown(outcome="finished", reason="round 150 of 150 is committed"),
        m.Bye(),
    )
}
