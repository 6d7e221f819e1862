//! The picture: p50 to p99 of the time to a grant, a bar for each system, a panel for each workload, on one
//! logarithmic scale. Its colours can be told apart by all, on light and on dark.

use std::fmt::Write;

use crate::report::Row;
use crate::roster::System;
use crate::work::{self, Workload};

/// What the scale begins and ends with, ms, each power of ten marked.
const FROM_MS: f64 = 0.01;
const DECADES: i32 = 6;
/// Pixels.
const LABELS: f64 = 330.0;
const SCALE: f64 = 480.0;
const WIDTH: f64 = LABELS + SCALE + 110.0;
const LINE: f64 = 19.0;

/// Two hues from Okabe and Ito's set, and a grey.
const STYLE: &str = "\
text{font:12px system-ui,sans-serif;fill:#24292f}.head{font-weight:600;font-size:13px}.soft{fill:#57606a}\
.ours{fill:#0072b2}.theirs{fill:#d55e00}.ideal{fill:#6e7781}.grid{stroke:#8c959f;stroke-opacity:.35}\
@media(prefers-color-scheme:dark){text{fill:#e6edf3}.soft{fill:#9da7b3}.ours{fill:#56b4e9}.theirs{fill:#e69f00}\
.ideal{fill:#9da7b3}}";

pub(crate) fn svg(rows: &[Row]) -> String {
    let mut body = String::new();
    let mut top = 44.0;
    let _ = writeln!(
        body,
        "<text class=\"head\" x=\"8\" y=\"20\">Time to a grant: from the median to the 99th percentile, on a \
         logarithmic scale; shorter is better</text>"
    );
    // What is measured for its throughput, or is for preclaim and one other alone, is in the tables.
    let beside = [Workload::OwnLater, Workload::OwnBatch];
    for workload in work::ALL.into_iter().filter(|workload| !beside.contains(workload)) {
        let of: Vec<&Row> = rows.iter().filter(|row| row.workload == workload).collect();
        if !of.is_empty() {
            top = panel(&mut body, workload, &of, top);
        }
    }
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {top}\" width=\"{WIDTH}\" height=\"{top}\" \
         role=\"img\"><title>Time to a grant by system and workload</title><style>{STYLE}</style>\n{body}</svg>\n"
    )
}

/// Draws one workload from `top` on, and says where the next begins.
fn panel(body: &mut String, workload: Workload, rows: &[&Row], top: f64) -> f64 {
    let _ = writeln!(body, "<text class=\"head\" x=\"8\" y=\"{}\">{}</text>", top + 12.0, workload.title());
    let first = top + 22.0;
    let end = first + rows.len() as f64 * LINE;
    for decade in 0..=DECADES {
        let (ms, at) =
            (FROM_MS * 10_f64.powi(decade), LABELS + SCALE * f64::from(decade) / f64::from(DECADES));
        let shown = if ms < 1000.0 { format!("{ms} ms") } else { format!("{} s", ms / 1000.0) };
        let _ = writeln!(body, "<path class=\"grid\" d=\"M{at:.1} {first}V{end}\"/>");
        let _ = writeln!(
            body,
            "<text class=\"soft\" x=\"{at:.1}\" y=\"{}\" text-anchor=\"middle\">{shown}</text>",
            end + 13.0
        );
    }
    for (nth, row) in rows.iter().enumerate() {
        bar(body, row, first + nth as f64 * LINE);
    }
    end + 34.0
}

fn bar(body: &mut String, row: &Row, top: f64) {
    let (p50, p99) = (row.quantile_ms(0.5), row.quantile_ms(0.99));
    let (from, to) = (across(p50), across(p99));
    let class = match row.system {
        System::Ideal => "ideal",
        System::Preclaim { .. } => "ours",
        _ => "theirs",
    };
    let _ = writeln!(
        body,
        "<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text>",
        LABELS - 10.0,
        top + 13.0,
        row.title()
    );
    let width = (to - from).max(3.0);
    let _ = writeln!(
        body,
        "<rect class=\"{class}\" x=\"{from:.1}\" y=\"{}\" width=\"{width:.1}\" height=\"11\" rx=\"2\"/>",
        top + 4.0
    );
    let shown = if p99 < 10.0 { format!("{p99:.2} ms") } else { format!("{p99:.0} ms") };
    let _ = writeln!(
        body,
        "<text class=\"soft\" x=\"{:.1}\" y=\"{}\">{shown}</text>",
        from + width + 5.0,
        top + 13.0
    );
}

/// Where `ms` stands on the scale, pixels from the left.
fn across(ms: f64) -> f64 {
    let decades = (ms.max(FROM_MS) / FROM_MS).log10().min(f64::from(DECADES));
    LABELS + SCALE * decades / f64::from(DECADES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_power_of_ten_is_as_wide_and_what_is_off_the_scale_stays_at_its_ends() {
        assert!((across(0.1) - across(0.01) - (across(1000.0) - across(100.0))).abs() < 1e-9);
        assert_eq!(across(0.0), LABELS);
        assert_eq!(across(1e9), LABELS + SCALE);
    }
}
