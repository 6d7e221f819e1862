//! Bodies of records and chunks of snapshots, of any bytes.

use std::convert::Infallible;
use std::sync::Arc;

use preclaim::audit::{
    Follower, ItemReader, ItemWriter, Record, SlotEntry, SnapshotItem, State, StoredInput, decode_head,
    encode, encode_head,
};
use preclaim::resolver::{Input, Rules, SlotBatch, SlotOutcome};
use preclaim::types::{Intent, IntentKey, Micros, RawClaim, RawIntent, RawMode, RawTarget, Time};

use super::script::Script;

/// What is read of a record is written as something that reads the same; and a state takes it, or says why not.
pub(crate) fn record(data: &[u8]) {
    let _ = State::default().apply(data);
    let Ok((record, changes)) = Record::decode(data) else { return };
    let items = record.inputs.len() + record.decisions.len() + record.notes.declared.len();
    assert!(items + record.notes.sessions.len() <= data.len(), "an item takes a byte at least");
    assert_eq!(record.decisions.len(), record.ranks.len());
    let stood = |key: &IntentKey| Some(stood_before(key));
    let Ok(changes) = changes.decode(&record, &stood) else { return };
    let Some(batch) = batch(&record) else { return };
    let outcome = SlotOutcome {
        decisions: record.decisions.clone(),
        ranks: record.ranks.clone(),
        digest: record.digest,
        changes: Some(changes),
        ..SlotOutcome::empty(record.slot, record.at)
    };
    let mut written = Vec::new();
    let entry = SlotEntry { batch: &batch, outcome: &outcome, notes: &record.notes };
    encode(&record.config_hash, entry, &mut written);
    let (again, changes) = Record::decode(&written).expect("what is written can be read");
    let again_changes = changes.decode(&again, &stood).expect("and applied to what it was applied to");
    // By words, since what is not a number is not equal to itself.
    assert_eq!(format!("{:?}", again.decisions), format!("{:?}", record.decisions));
    assert_eq!(format!("{:?}", again.inputs), format!("{:?}", record.inputs));
    assert_eq!((again.slot, again.at, again.digest), (record.slot, record.at, record.digest));
    assert_eq!(again.notes, record.notes);
    assert_eq!(format!("{again_changes:?}"), format!("{:?}", outcome.changes.unwrap_or_default()));
}

/// What every intent was before the record.
fn stood_before(key: &IntentKey) -> Arc<Intent> {
    let target = RawTarget::Path("a".into());
    let claim = RawClaim { target, mode: RawMode::Exclusive, offset: 0, duration: 7 };
    let raw = RawIntent { id: key.id.number(), claims: vec![claim], ..RawIntent::default() };
    Arc::new(raw.parse().unwrap())
}

/// The record's inputs as those of a slot, where they can be those of one.
fn batch(record: &Record) -> Option<SlotBatch> {
    let slots = record.slot.number().checked_add(1)?;
    let length = Micros::from_us(record.at.as_us().checked_div(slots)?);
    if length == Micros::ZERO || !record.at.as_us().is_multiple_of(slots) {
        return None;
    }
    let input = |input: &StoredInput| input.to_input(|_| Ok::<Rules, Infallible>(Rules::default()));
    let inputs: Vec<Input> = record.inputs.iter().map(input).collect::<Result<_, _>>().ok()?;
    SlotBatch::new(record.slot, length, inputs).ok()
}

/// Chunks, each of the length that the two bytes before it say: the state that they make is written as chunks
/// that make the same one.
pub(crate) fn snapshot(data: &[u8]) {
    let mut script = Script::new(data);
    let (mut follower, mut is_head, mut is_whole) = (Follower::default(), true, true);
    while !script.is_over() {
        let length = u16::from_le_bytes([script.byte(), script.byte()]);
        let chunk = script.piece(length.into());
        if is_head {
            head(chunk)
        } else {
            items(chunk)
        }
        is_head = false;
        is_whole &= follower.chunk(chunk).is_ok();
    }
    if is_whole {
        let first = chunks(&follower.finish());
        let mut follower = Follower::default();
        first.iter().for_each(|chunk| follower.chunk(chunk).expect("what is written can be read"));
        assert_eq!(chunks(&follower.finish()), first);
    }
}

fn chunks(state: &State) -> Vec<Vec<u8>> {
    let mut chunks = Vec::new();
    let written = state.write(|chunk| {
        chunks.push(chunk.to_vec());
        Ok::<(), Infallible>(())
    });
    written.map_or_else(|never| match never {}, |()| chunks)
}

fn head(chunk: &[u8]) {
    let Ok((head, extra)) = decode_head(chunk) else { return };
    let mut written = Vec::new();
    encode_head(&head, &extra, &mut written);
    assert_eq!(decode_head(&written), Ok((head, extra)));
}

fn items(chunk: &[u8]) {
    let Ok(reader) = ItemReader::new(chunk) else { return };
    let Ok(items) = reader.collect::<Result<Vec<SnapshotItem>, _>>() else { return };
    assert!(items.len() <= chunk.len());
    let head = preclaim::resolver::Image::default().head();
    let mut written = Vec::new();
    let mut writer = ItemWriter::new(&head, Time::ZERO, &mut written);
    for item in &items {
        match item {
            SnapshotItem::State(item) => writer.item(item),
            SnapshotItem::Route(key, route) => writer.route(key, route),
        }
    }
    let again: Result<Vec<SnapshotItem>, _> = ItemReader::new(&written).expect("it has a head").collect();
    assert_eq!(format!("{:?}", again.expect("what is written can be read")), format!("{items:?}"));
}
