"""The table that an onboarder prints."""

from agent.table import table


def test_each_row_has_its_line() -> None:
    """Start, budget, return and success stand in aligned columns; a family without success shows a dash."""
    text = table(
        [
            {
                "goal": 7,
                "init": "learned",
                "m_adapt": 0,
                "return": 1.4321,
                "success": 0.75,
                "trajectories": 0,
            },
            {
                "goal": 7,
                "init": "learned",
                "m_adapt": 100,
                "return": 1.9,
                "success": 0.79,
                "trajectories": 100,
            },
            {
                "goal": 7,
                "init": "scratch",
                "m_adapt": 100,
                "return": 0.25,
                "success": None,
                "trajectories": 100,
            },
        ]
    )
    assert text.splitlines() == [
        "goal 7",
        "start                 trajectories  return  success",
        "--------------------  ------------  ------  -------",
        "learned, not adapted             0   1.432   75.0 %",
        "learned, one step              100   1.900   79.0 %",
        "from scratch                   100   0.250        -",
    ]
