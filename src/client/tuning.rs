//! How QUIC goes about loss, bursts and a new way: one place for the coordinator's end of a connection and the
//! agent's. The figures behind each value stand in docs/BENCHMARKS.md, "Under loss";
//! `cargo bench --bench loss` makes them anew.

use std::sync::Arc;
use std::time::Duration;

use quinn::congestion::{BbrConfig, ControllerFactory, CubicConfig, NewRenoConfig};
use quinn::{AckFrequencyConfig, MtuDiscoveryConfig, TransportConfig, VarInt};

/// How fast what is under way may grow, and what a loss does to that.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Congestion {
    /// Cubic.
    Cubic,
    /// NewReno.
    NewReno,
    /// BBR.
    Bbr,
}

/// What one end of a connection does about loss. Public for `benches/loss.rs` alone, which holds other
/// values against these.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tuning {
    /// How long the other end may wait before it acknowledges what came; `None` leaves it at QUIC's 25 ms.
    pub ack_delay: Option<Duration>,
    /// So many packets the other end may let pass without acknowledging them at once. Counts where `ack_delay`
    /// is set.
    pub ack_every: u32,
    /// What a round trip is taken for until one has been measured: a lost first packet goes again after three
    /// times as long.
    pub initial_rtt: Duration,
    /// The congestion control.
    pub congestion: Congestion,
    /// Bytes that may be under way at first; `None` is the congestion control's own.
    pub initial_window: Option<u64>,
    /// A packet counts as lost once so many later ones have arrived.
    pub packet_threshold: u32,
    /// Or once a later one has arrived and so many round trips have passed.
    pub time_threshold: f32,
    /// Whether several datagrams are handed to the kernel at once.
    pub segmentation: bool,
    /// Whether larger datagrams are tried.
    pub mtu_discovery: bool,
}

impl Tuning {
    /// What quinn does by itself.
    pub const QUINN: Tuning = Tuning {
        ack_delay: None,
        ack_every: 1,
        initial_rtt: Duration::from_millis(333),
        congestion: Congestion::Cubic,
        initial_window: None,
        packet_threshold: 3,
        time_threshold: 9.0 / 8.0,
        segmentation: true,
        mtu_discovery: true,
    };

    /// What both ends do.
    pub const CHOSEN: Tuning = Tuning {
        // As long as a slot usually is, so that the acknowledgement of a declaration travels with its answer: a
        // lost packet shows 15 ms sooner, and no packet more is sent. With 5 ms an eighth more are.
        ack_delay: Some(Duration::from_millis(10)),
        // A handshake whose packet is lost goes on after 0.3 s and not after a second; a way that takes longer
        // costs a packet that was not needed.
        initial_rtt: Duration::from_millis(100),
        ..Tuning::QUINN
    };

    pub(crate) fn apply(&self, config: &mut TransportConfig) {
        config
            .initial_rtt(self.initial_rtt)
            .packet_threshold(self.packet_threshold)
            .time_threshold(self.time_threshold)
            .enable_segmentation_offload(self.segmentation)
            .mtu_discovery_config(self.mtu_discovery.then(MtuDiscoveryConfig::default))
            .ack_frequency_config(self.ack_frequency())
            .congestion_controller_factory(self.controller());
    }

    fn ack_frequency(&self) -> Option<AckFrequencyConfig> {
        let delay = self.ack_delay?;
        let mut config = AckFrequencyConfig::default();
        config.max_ack_delay(Some(delay)).ack_eliciting_threshold(VarInt::from_u32(self.ack_every));
        // As without this: what comes out of order is acknowledged at once, and so shows a loss.
        config.reordering_threshold(VarInt::from_u32(1));
        Some(config)
    }

    fn controller(&self) -> Arc<dyn ControllerFactory + Send + Sync> {
        match self.congestion {
            Congestion::Cubic => {
                let mut config = CubicConfig::default();
                self.initial_window.map(|bytes| config.initial_window(bytes));
                Arc::new(config)
            }
            Congestion::NewReno => {
                let mut config = NewRenoConfig::default();
                self.initial_window.map(|bytes| config.initial_window(bytes));
                Arc::new(config)
            }
            Congestion::Bbr => {
                let mut config = BbrConfig::default();
                self.initial_window.map(|bytes| config.initial_window(bytes));
                Arc::new(config)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn applied(tuning: &Tuning) -> String {
        let mut config = TransportConfig::default();
        tuning.apply(&mut config);
        format!("{config:?}")
    }

    #[test]
    fn quinns_own_is_what_quinn_does_by_itself() {
        assert_eq!(applied(&Tuning::QUINN), format!("{:?}", TransportConfig::default()));
    }

    #[test]
    fn what_was_chosen_is_asked_for() {
        let config = applied(&Tuning::CHOSEN);
        let has = |what: &str| assert!(config.contains(what), "{what} in {config}");
        has("max_ack_delay: Some(10ms)");
        has("ack_eliciting_threshold: 1");
        has("reordering_threshold: 1");
        has("initial_rtt: 100ms");
    }

    #[test]
    fn without_a_delay_the_other_end_is_asked_for_nothing() {
        let tuning = Tuning { ack_delay: None, ack_every: 0, ..Tuning::CHOSEN };
        assert!(applied(&tuning).contains("ack_frequency_config: None"));
    }
}
