//! Tokens, for those who have no certificates: which agent each one is.

use std::collections::BTreeMap;
use std::fmt;

use ring::rand::{SecureRandom, SystemRandom};
use ring::{digest, hmac};

use super::certificate::hex;
use crate::limits;
use crate::types::Agent;
use crate::wire::Bearer;

/// The SHA-256 of a token: what is kept of one, on disk and in memory. A token is 256 bits of chance, so that nobody
/// finds it by trying, whatever the hash costs: what makes a password's hash slow has nothing to do here.
#[derive(Clone, Copy)]
#[cfg_attr(test, derive(PartialEq))] // elsewhere it is compared in constant time, by `Tokens`
pub struct TokenDigest([u8; 32]);

impl fmt::Debug for TokenDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TokenDigest(..)")
    }
}

impl TokenDigest {
    /// That of `token`.
    pub fn of(token: &Bearer) -> Self {
        let sum = digest::digest(&digest::SHA256, token.bytes());
        TokenDigest(sum.as_ref().try_into().unwrap_or_else(|_| unreachable!("SHA-256 has 32 bytes")))
    }

    /// The digest that `text` spells: 64 hexadecimal digits.
    pub fn parse(text: &str) -> Option<Self> {
        let (pairs, rest) = text.as_bytes().as_chunks::<2>();
        let digit = |byte: u8| char::from(byte).to_digit(16);
        let mut bytes = [0; 32];
        if pairs.len() != bytes.len() || !rest.is_empty() {
            return None;
        }
        for (byte, [high, low]) in bytes.iter_mut().zip(pairs) {
            *byte = u8::try_from(digit(*high)? << 4 | digit(*low)?).ok()?;
        }
        Some(TokenDigest(bytes))
    }

    /// Its hexadecimal digits.
    pub fn to_hex(self) -> String {
        hex(&self.0)
    }
}

/// A token that nobody had before.
///
/// # Errors
/// Where the system has no randomness.
pub(super) fn drawn() -> Result<Bearer, String> {
    let mut bytes = [0; Bearer::BYTES];
    SystemRandom::new().fill(&mut bytes).map_err(|_| "the system has no randomness".to_owned())?;
    Ok(Bearer::new(bytes))
}

/// Whose each token is.
///
/// They are looked up by a keyed hash of their digests, under a key that only this table knows: how long a look takes
/// says nothing of the digests, since who asks cannot tell what its token becomes under that key. What is found
/// is then compared in constant time.
#[derive(Clone)]
pub struct Tokens {
    key: hmac::Key,
    agents: BTreeMap<[u8; 32], (TokenDigest, Agent)>,
}

impl fmt::Debug for Tokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tokens").field("tokens", &self.agents.len()).finish_non_exhaustive()
    }
}

impl Tokens {
    /// The table of these.
    ///
    /// # Errors
    /// Where one token is two agents', there are more than [`limits::TOKENS`], or the system has no randomness.
    pub fn new(list: impl IntoIterator<Item = (TokenDigest, Agent)>) -> Result<Self, String> {
        let key = hmac::Key::generate(hmac::HMAC_SHA256, &SystemRandom::new())
            .map_err(|_| "the system has no randomness".to_owned())?;
        let mut tokens = Tokens { key, agents: BTreeMap::new() };
        for (digest, agent) in list {
            let place = tokens.place(digest);
            if let Some((_, other)) = tokens.agents.insert(place, (digest, agent.clone())) {
                return Err(format!("one token is there twice, for \"{other}\" and \"{agent}\""));
            }
            if tokens.agents.len() > limits::TOKENS {
                return Err(format!("more than {} tokens", limits::TOKENS));
            }
        }
        Ok(tokens)
    }

    /// Whose token has this digest.
    pub fn agent(&self, digest: TokenDigest) -> Option<&Agent> {
        let (kept, agent) = self.agents.get(&self.place(digest))?;
        let tag = hmac::sign(&self.key, &kept.0);
        hmac::verify(&self.key, &digest.0, tag.as_ref()).is_ok().then_some(agent)
    }

    fn place(&self, digest: TokenDigest) -> [u8; 32] {
        let tag = hmac::sign(&self.key, &digest.0);
        tag.as_ref().try_into().unwrap_or_else(|_| unreachable!("HMAC-SHA-256 has 32 bytes"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn agent(name: &str) -> Agent {
        Agent::new(name).unwrap()
    }

    #[test]
    fn a_token_is_its_agents_and_no_other_is_anybodys() {
        let [one, two, other] = [(); 3].map(|()| drawn().unwrap());
        let kept = [(TokenDigest::of(&one), agent("a")), (TokenDigest::of(&two), agent("a"))];
        let tokens = Tokens::new(kept).unwrap();
        for mine in [&one, &two] {
            assert_eq!(tokens.agent(TokenDigest::of(mine)), Some(&agent("a")));
        }
        assert_eq!(tokens.agent(TokenDigest::of(&other)), None);
        let mut near = *one.bytes();
        near[31] ^= 1;
        assert_eq!(tokens.agent(TokenDigest::of(&Bearer::new(near))), None);
        assert!(!format!("{tokens:?} {:?}", TokenDigest::of(&one)).contains(&TokenDigest::of(&one).to_hex()));
    }

    #[test]
    fn one_token_is_not_two_agents_and_a_digest_is_read_back() {
        let digest = TokenDigest::of(&Bearer::new([7; 32]));
        assert!(Tokens::new([(digest, agent("a")), (digest, agent("b"))]).is_err());
        assert_eq!(TokenDigest::parse(&digest.to_hex()), Some(digest));
        for bad in [
            "",
            &digest.to_hex()[1..],
            &format!("{}0", digest.to_hex()),
            &format!("g{}", &digest.to_hex()[1..]),
        ] {
            assert_eq!(TokenDigest::parse(bad), None);
        }
    }
}
