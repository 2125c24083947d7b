"""`python -m scenarios faults`: one small scenario per fault and place, run with real programs and judged.

`library` holds the scenarios, `suite` runs them, `verdict` judges them (pure), `command` is what one types.
"""
