"""ridgeline doctor: what this machine can measure, and what to install for more."""

from app.commands import options as opt


def doctor(json: opt.Json = False) -> None:
    """Show what this machine can measure, and how to install what is missing."""
    import hardware_db
    from hardware_db.data_folder import data_folder
    from profilers.collect.doctor import examine

    rows = [check.row() for check in examine()]
    calibrated = (data_folder() / "systems" / "this-machine.yaml").is_file()
    left_out = hardware_db.left_out()
    shown = [{key: row[key] for key in ("name", "status", "found", "enables")} for row in rows]
    words = [f"{row['name']}: {row['advice']}" for row in rows if row["advice"]]
    words += left_out
    if not calibrated:
        words.append("this machine is not calibrated yet: run `ridgeline calibrate machine`")
    facts = {"checks": rows, "calibrated": calibrated, "left_out": left_out}
    opt.show(json, facts, shown, "\n".join(words))
