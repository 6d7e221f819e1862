//! What a slot's record costs to write and to read, and how many bytes it takes.
//!
//! `cargo bench --bench audit`; each figure is one record of a whole slot of 1,000 declarations of one
//! claim each by 100 agents, every one granted: a declaration, a decision and a change. Beside them
//! stands the making of a snapshot's chunk of the thousand grants.

use std::sync::Arc;

use divan::{Bencher, black_box};
use preclaim::audit::{ItemReader, ItemWriter, Record, SlotEntry, encode};
use preclaim::resolver::{AgentOp, Image, ImageItem, Input, Resolver, Rules, SlotBatch, SlotOutcome};
use preclaim::session::coordinator::{DeclaredBy, SessionNotes};
use preclaim::types::{
    Agent, Intent, IntentKey, Micros, RawClaim, RawIntent, RawMode, RawTarget, Slot, Time,
};

const SLOT: u64 = 10_000;
const DECLARATIONS: u64 = 1_000;
/// When it is, so that times have their usual size: late in 2026.
const FIRST_SLOT: u64 = 179_000_000_000;

fn main() {
    let granted = Granted::new();
    let bytes = |bytes: usize| bytes as f64 / DECLARATIONS as f64;
    let of = "bytes a declaration, with its decision and change";
    println!("record: {:.1} {of}", bytes(granted.record().len()));
    println!("snapshot: {:.1} bytes a grant", bytes(granted.chunk().len()));
    println!("record with a label and a note to each: {:.1} {of}", bytes(granted.noted().record().len()));
    divan::main();
}

/// A slot in which everybody is granted.
struct Granted {
    batch: SlotBatch,
    outcome: SlotOutcome,
    notes: SessionNotes,
    image: Image,
    items: Vec<ImageItem>,
}

impl Granted {
    fn new() -> Self {
        let slot = Slot::new(FIRST_SLOT);
        let length = Micros::from_us(SLOT);
        let opens = slot.opens(length).as_us();
        let inputs = (0..DECLARATIONS).map(|number| declaration(opens, number)).collect();
        let batch = SlotBatch::new(slot, length, inputs).unwrap_or_else(|why| panic!("{why}"));
        let outcome = Resolver::new(Rules::default()).reporting_changes().resolve(&batch);
        assert_eq!(outcome.decisions.len() as u64, DECLARATIONS);
        let mut image = Image::default();
        image.apply(slot, outcome.at, outcome.changes.clone().unwrap_or_else(|| panic!("it was asked for")));
        let items = image.items().collect();
        Granted { batch, outcome, notes: SessionNotes::default(), image, items }
    }

    fn noted(mut self) -> Self {
        let label: Arc<str> = "arm".into();
        let note: Arc<str> = "lifts a crate".into();
        let declared = |input| DeclaredBy { input, label: label.clone(), note: note.clone() };
        self.notes.declared = (0..DECLARATIONS as usize).map(declared).collect();
        self
    }

    fn encode(&self, out: &mut Vec<u8>) {
        let entry = SlotEntry { batch: &self.batch, outcome: &self.outcome, notes: &self.notes };
        encode(&[7; 32], entry, out);
    }

    fn record(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.encode(&mut out);
        out
    }

    fn chunk(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let mut writer = ItemWriter::new(&self.image.head(), self.outcome.at, &mut out);
        self.items.iter().for_each(|item| writer.item(item));
        out
    }
}

fn declaration(opens: u64, number: u64) -> Input {
    let path = format!("zone-{}/row-{}/cell-{number}", number % 10, number % 100);
    let target = RawTarget::Path(path);
    let claim = RawClaim { target, mode: RawMode::Exclusive, offset: 0, duration: 5_000_000 };
    let raw = RawIntent { id: 1_000 + number, urgency: 0.5, claims: vec![claim], ..RawIntent::default() };
    let intent = raw.parse().unwrap_or_else(|why| panic!("{}: {}", why.field, why.expected));
    let agent = Agent::new(&format!("agent-{}", number % 100)).unwrap_or_else(|| panic!("a valid name"));
    Input::Agent { at: Time::from_us(opens + number * 9), agent, op: AgentOp::Declare(intent) }
}

#[divan::bench(sample_count = 200)]
fn encode_1000_granted(bencher: Bencher<'_, '_>) {
    let granted = Granted::new();
    let mut out = Vec::new();
    bencher.bench_local(|| {
        out.clear();
        granted.encode(&mut out);
        black_box(&out);
    });
}

#[divan::bench(sample_count = 200)]
fn encode_1_granted(bencher: Bencher<'_, '_>) {
    let mut granted = Granted::new();
    let inputs = granted.batch.inputs()[..1].to_vec();
    let length = Micros::from_us(SLOT);
    granted.batch =
        SlotBatch::new(granted.outcome.slot, length, inputs).unwrap_or_else(|why| panic!("{why}"));
    granted.outcome = Resolver::new(Rules::default()).reporting_changes().resolve(&granted.batch);
    let mut out = Vec::new();
    bencher.bench_local(|| {
        out.clear();
        granted.encode(&mut out);
        black_box(&out);
    });
}

#[divan::bench(sample_count = 200)]
fn decode_1000_granted(bencher: Bencher<'_, '_>) {
    let body = Granted::new().record();
    let nothing = |_: &IntentKey| -> Option<Arc<Intent>> { None };
    bencher.bench_local(|| {
        let (record, rest) = Record::decode(black_box(&body)).unwrap_or_else(|wrong| panic!("{wrong}"));
        let changes = rest.decode(&record, &nothing).unwrap_or_else(|wrong| panic!("{wrong}"));
        black_box((record, changes))
    });
}

#[divan::bench(sample_count = 200)]
fn snapshot_items_1000_written(bencher: Bencher<'_, '_>) {
    let granted = Granted::new();
    bencher.bench_local(|| black_box(granted.chunk()));
}

#[divan::bench(sample_count = 200)]
fn snapshot_items_1000_read(bencher: Bencher<'_, '_>) {
    let chunk = Granted::new().chunk();
    bencher.bench_local(|| {
        let reader = ItemReader::new(black_box(&chunk)).unwrap_or_else(|wrong| panic!("{wrong}"));
        reader.map(|item| item.unwrap_or_else(|wrong| panic!("{wrong}"))).collect::<Vec<_>>()
    });
}
