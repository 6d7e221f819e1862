//! Close codes: why a connection was ended, as the number that QUIC carries.

macro_rules! close_codes {
    ($($(#[$doc:meta])* $name:ident = $number:literal, $text:literal;)*) => {
        /// Why a connection was closed. Numbers are never reused.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum CloseCode {
            $($(#[$doc])* $name = $number,)*
        }

        impl CloseCode {
            /// Every code, by number.
            pub const ALL: &'static [CloseCode] = &[$(CloseCode::$name,)*];

            /// The code's number.
            pub const fn number(self) -> u32 {
                self as u32
            }

            /// The code of that number, where it is known.
            pub const fn of(number: u64) -> Option<Self> {
                match number {
                    $($number => Some(CloseCode::$name),)*
                    _ => None,
                }
            }

            /// What it means, in a few words.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(CloseCode::$name => $text,)*
                }
            }
        }
    };
}

close_codes! {
    /// All is said; nothing went wrong.
    Done = 0, "done";
    /// A frame's length is above the limit.
    FrameTooLong = 1, "frame too long";
    /// A lane ended inside a frame, or a frame has no room for its kind.
    FrameCutOff = 2, "frame cut off";
    /// A frame of a kind that this version does not have, or that this side does not take.
    UnknownKind = 3, "unknown kind of message";
    /// The two sides have no version in common.
    UnsupportedVersion = 4, "no protocol version in common";
    /// A second hello on one connection.
    SecondHello = 5, "second hello";
    /// No hello came in time.
    NoHello = 6, "no hello in time";
    /// A body is not a message of its kind.
    MalformedBody = 7, "malformed message";
    /// A message out of turn, such as one before the welcome.
    ProtocolOrder = 8, "message out of turn";
    /// The name is not a name, or not this peer's.
    NameRefused = 9, "name refused";
    /// A newer incarnation of this name and label has taken over.
    Replaced = 10, "replaced by a newer incarnation";
    /// The coordinator shuts down.
    ShuttingDown = 11, "shutting down";
    /// The coordinator has as many connections as it takes.
    TooManyConnections = 12, "too many connections";
    /// The peer reads more slowly than it is written to.
    TooSlowReader = 13, "too slow a reader";
    /// The coordinator is at fault.
    Internal = 14, "internal error";
    /// The hello asked to be refused where a session of this name and label is live, and one is.
    SessionLive = 15, "a session of this name and label is live";
    /// A hello has an extension that must be understood and is not.
    UnsupportedExtension = 16, "unsupported extension";
    /// More lanes than the welcome allows.
    TooManyLanes = 17, "too many lanes";
    /// The peer has no certificate that lets it in: none, one of another issuer's, or one that has expired or was
    /// revoked, perhaps while it was connected.
    CertificateRefused = 18, "certificate refused";
    /// The hello has no token that lets it in, or the one that it came in with was taken back.
    TokenRefused = 19, "token refused";
    /// The hello asks for another name than the certificate or the token says.
    AnothersName = 20, "another's name";
}
