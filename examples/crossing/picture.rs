//! A picture of one run: the junction in motion, and each vehicle's way over time.

use std::fmt::Write;

use super::Seen;
use super::road::{CLEAR, EMERGENCY, ENTRY, EXIT, LANES, LENGTH, State, TICK_MS, Track};

const COLOURS: [&str; 4] = ["#1f77b4", "#2ca02c", "#9467bd", "#ff7f0e"];
const BRAKES: &str = "#d62728";
/// A junction's picture is so large.
const SIDE: f64 = 300.0;
/// Metres of the road that it shows, either way.
const SHOWN: f64 = 40.0;
/// Height of a diagram.
const TALL: f64 = 220.0;
const WIDE: f64 = 3.0 * SIDE + 40.0;
/// Ticks from one point that is drawn to the next.
const EVERY: usize = 20;

/// The whole picture, as a document.
pub(crate) fn draw(seen: &Seen) -> String {
    let ways = [("on sight", &seen.sight), ("one lock", &seen.lock), ("preclaim", &seen.preclaim)];
    let until = ways.iter().flat_map(|(_, tracks)| tracks.iter().map(Track::leaves)).max().unwrap_or(1);
    let height = SIDE + 40.0 + 3.0 * (TALL + 40.0);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDE} {height}\" font-family=\"sans-serif\" \
         font-size=\"13\">\n<rect width=\"{WIDE}\" height=\"{height}\" fill=\"#fff\"/>\n"
    );
    for (at, (name, tracks)) in ways.iter().enumerate() {
        junction(&mut svg, name, tracks, at as f64 * (SIDE + 20.0), until);
        diagram(&mut svg, name, tracks, SIDE + 60.0 + at as f64 * (TALL + 40.0), until);
    }
    svg.push_str("</svg>\n");
    svg
}

/// Writing to a string cannot fail.
fn put(svg: &mut String, text: std::fmt::Arguments<'_>) {
    let _ = svg.write_fmt(text);
}

/// The junction from above; vehicles move in real time, again and again.
fn junction(svg: &mut String, name: &str, tracks: &[Track], left: f64, until: usize) {
    let scale = SIDE / (2.0 * SHOWN);
    let road = 8.0 * scale;
    let from = SIDE / 2.0 - road / 2.0;
    put(
        svg,
        format_args!(
            "<text x=\"{left}\" y=\"16\">{name}</text>\n<svg x=\"{left}\" y=\"24\" width=\"{SIDE}\" height=\"{SIDE}\">\n\
             <rect width=\"{SIDE}\" height=\"{SIDE}\" fill=\"#e8efe2\"/>\n\
             <rect x=\"0\" y=\"{from:.1}\" width=\"{SIDE}\" height=\"{road:.1}\" fill=\"#ccc\"/>\n\
             <rect y=\"0\" x=\"{from:.1}\" width=\"{road:.1}\" height=\"{SIDE}\" fill=\"#ccc\"/>\n"
        ),
    );
    for track in tracks {
        let colour = COLOURS[track.lane];
        let [[x0, y0], [x1, y1]] = LANES[track.lane].area(0.0, LENGTH, 0.0);
        let (wide, tall) = ((x1 - x0) * scale, (y1 - y0) * scale);
        let places: Vec<(f64, f64)> = (0..=until)
            .step_by(EVERY)
            .map(|tick| match track.at(tick) {
                Some(state) => {
                    let [[x, _], [_, y]] = LANES[track.lane].area(state.s - LENGTH, state.s, 0.0);
                    ((x + SHOWN) * scale, (SHOWN - y) * scale)
                }
                None => (-100.0, -100.0),
            })
            .collect();
        let list = |pick: fn(&(f64, f64)) -> f64| {
            places.iter().map(|place| format!("{:.1}", pick(place))).collect::<Vec<_>>().join(";")
        };
        let seconds = (until as u64 * TICK_MS) as f64 / 1e3;
        let moves = |attribute: &str, values: String| {
            format!(
                "<animate attributeName=\"{attribute}\" dur=\"{seconds}s\" repeatCount=\"indefinite\" \
                 values=\"{values}\"/>"
            )
        };
        let (x, y) = (moves("x", list(|it| it.0)), moves("y", list(|it| it.1)));
        // What does not move pictures shows the moment at a sixth of the time.
        let (still_x, still_y) = places[places.len() / 6];
        put(
            svg,
            format_args!(
                "<rect x=\"{still_x:.1}\" y=\"{still_y:.1}\" width=\"{wide:.1}\" height=\"{tall:.1}\" fill=\"{colour}\">{x}{y}</rect>\n"
            ),
        );
    }
    svg.push_str("</svg>\n");
}

/// Time from left to right, the way along the lane upwards, one line a vehicle, red where it brakes hard.
fn diagram(svg: &mut String, name: &str, tracks: &[Track], top: f64, until: usize) {
    let x = |tick: usize| tick as f64 / until as f64 * WIDE;
    let y = |s: f64| top + TALL - (s - ENTRY) / (EXIT - ENTRY) * TALL;
    let (high, low) = (y(CLEAR), y(0.0));
    let seconds = until as u64 * TICK_MS / 1_000;
    put(
        svg,
        format_args!(
            "<text x=\"0\" y=\"{:.1}\">{name}: way along the lane (from {ENTRY} m before the line to {EXIT} m past it) over {seconds} s; \
             grey: the middle; red: more than {EMERGENCY} m/s²</text>\n\
             <rect x=\"0\" y=\"{top}\" width=\"{WIDE}\" height=\"{TALL}\" fill=\"#fafafa\" stroke=\"#999\"/>\n\
             <rect x=\"0\" y=\"{high:.1}\" width=\"{WIDE}\" height=\"{:.1}\" fill=\"#ddd\"/>\n",
            top - 6.0,
            low - high
        ),
    );
    for track in tracks {
        let point = |(at, state): (usize, &State)| format!("{:.1},{:.1}", x(track.enters + at), y(state.s));
        let line = |states: Vec<(usize, &State)>, colour: &str, width: f64| {
            let points: Vec<String> = states.into_iter().map(point).collect();
            format!(
                "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"{width}\"/>\n",
                points.join(" ")
            )
        };
        let all = track.states.iter().enumerate();
        svg.push_str(&line(all.clone().step_by(EVERY / 2).collect(), COLOURS[track.lane], 1.2));
        for hard in hard_brakings(track) {
            let part = all.clone().skip(hard.start).take(hard.len() + 1).collect();
            svg.push_str(&line(part, BRAKES, 3.0));
        }
    }
}

/// The stretches of ticks in which it brakes with more than [`EMERGENCY`].
fn hard_brakings(track: &Track) -> Vec<std::ops::Range<usize>> {
    let mut found: Vec<std::ops::Range<usize>> = Vec::new();
    for (at, pair) in track.states.windows(2).enumerate() {
        if (pair[0].v - pair[1].v) * 1e3 / TICK_MS as f64 > EMERGENCY + 1e-6 {
            match found.last_mut() {
                Some(last) if last.end == at => last.end = at + 1,
                _ => found.push(at..at + 1),
            }
        }
    }
    found
}
