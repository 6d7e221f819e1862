//! Each slot's record and each snapshot, written and read back: what comes back is the same, and the
//! comparison goes on with it.

use preclaim::audit::{
    ItemReader, ItemWriter, Record, SlotEntry, SnapshotExtra, SnapshotItem, StoredInput, decode_head, encode,
    encode_head,
};
use preclaim::resolver::state::SlotChanges;
use preclaim::resolver::{Image, ImageItem, SlotBatch, SlotOutcome};
use preclaim::session::coordinator::{DeclaredBy, Route, SessionNotes};
use preclaim::types::Time;

/// Items of a chunk: so few that many a state has several.
const CHUNK: usize = 16;

/// The slot's changes as they come out of its record. `image` is the state before them.
pub(crate) fn through_a_record(batch: &SlotBatch, outcome: &SlotOutcome, image: &Image) -> SlotChanges {
    let declared = (0..batch.inputs().len()).step_by(2).map(|input| DeclaredBy {
        input,
        label: if input % 4 == 0 { "".into() } else { "arm".into() },
        note: "lifts a crate".into(),
    });
    let notes = SessionNotes { declared: declared.collect(), ..SessionNotes::default() };
    let mut body = Vec::new();
    encode(&[7; 32], SlotEntry { batch, outcome, notes: &notes }, &mut body);

    let (record, changes) = Record::decode(&body).unwrap_or_else(|wrong| panic!("{wrong}"));
    let inputs: Vec<StoredInput> = batch.inputs().iter().map(StoredInput::from).collect();
    assert_eq!((record.slot, record.at), (outcome.slot, outcome.at));
    assert_eq!((record.config_hash, record.digest, &record.notes), ([7; 32], outcome.digest, &notes));
    assert_eq!(record.inputs, inputs);
    assert_eq!(record.decisions, outcome.decisions);
    assert_eq!(record.ranks, outcome.ranks);
    let before = |key: &_| image.standing(key).and_then(|standing| standing.intent().cloned());
    let changes = changes.decode(&record, &before).unwrap_or_else(|wrong| panic!("{wrong}"));
    assert_eq!(Some(&changes), outcome.changes.as_ref());
    changes
}

/// The state as it comes out of a snapshot.
pub(crate) fn through_a_snapshot(image: &Image, at: Time) -> Image {
    let extra = SnapshotExtra {
        document: "[slot]".into(),
        pending: Vec::new(),
        sessions: Vec::new(),
        next_session: 1,
    };
    let (head, items): (_, Vec<ImageItem>) = (image.head(), image.items().collect());
    let mut bytes = Vec::new();
    encode_head(&head, &extra, &mut bytes);
    let read = decode_head(&bytes).unwrap_or_else(|wrong| panic!("{wrong}"));
    assert_eq!(read, (head, extra));
    let chunks: Vec<Vec<u8>> = items.chunks(CHUNK).map(|items| chunk(&read.0, at, items)).collect();
    let items =
        chunks.iter().flat_map(|chunk| ItemReader::new(chunk).unwrap_or_else(|wrong| panic!("{wrong}")));
    let items = items.filter_map(|item| match item {
        Ok(SnapshotItem::State(item)) => Some(item),
        Ok(SnapshotItem::Route(..)) => None,
        Err(wrong) => panic!("{wrong}"),
    });
    Image::from_parts(read.0, items)
}

fn chunk(head: &preclaim::resolver::ImageHead, at: Time, items: &[ImageItem]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut writer = ItemWriter::new(head, at, &mut bytes);
    let mut all: Vec<SnapshotItem> = Vec::new();
    for item in items {
        writer.item(item);
        all.push(SnapshotItem::State(item.clone()));
        if let ImageItem::Standing(key, _) = item {
            let route = Route { label: "arm".into(), note: "".into(), sent: None };
            writer.route(key, &route);
            all.push(SnapshotItem::Route(key.clone(), route));
        }
    }
    let read: Result<Vec<SnapshotItem>, _> =
        ItemReader::new(&bytes).unwrap_or_else(|wrong| panic!("{wrong}")).collect();
    assert_eq!(read.as_ref(), Ok(&all));
    bytes
}
