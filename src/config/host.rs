//! The section `host`: what the daemon's threads ask of the machine.

use super::daemon::count_within;
use super::tree::{Fault, Field};
use crate::host::HostConfig;
use crate::limits;

pub(super) const HOST: &[&str] = &["realtime", "lock_memory", "cores", "network_cores"];

pub(super) fn host(field: Field<'_>) -> Result<HostConfig, Fault> {
    let host = field.table(HOST)?;
    Ok(HostConfig {
        realtime: host.optional("realtime", realtime)?,
        lock_memory: host.optional("lock_memory", |field| field.flag())?.unwrap_or(false),
        cores: host.optional("cores", cores)?.unwrap_or_default(),
        network_cores: host.optional("network_cores", cores)?.unwrap_or_default(),
    })
}

fn realtime(field: Field<'_>) -> Result<u8, Fault> {
    let (least, most) = limits::REALTIME_RANGE.into_inner();
    let priority = count_within(field, &(usize::from(least)..=usize::from(most)))?;
    // Within a range of its own type.
    Ok(u8::try_from(priority).unwrap_or(most))
}

fn cores(field: Field<'_>) -> Result<Vec<usize>, Fault> {
    const RULE: &str = "a list of core numbers, such as [0, 1]";
    let cores = field.list(RULE, |item| count_within(item, &(0..=limits::CORES - 1)))?;
    if cores.is_empty() { Err(field.wrong(format!("{RULE}; left out for any core"))) } else { Ok(cores) }
}
