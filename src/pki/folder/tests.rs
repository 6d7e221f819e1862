//! What the authority makes is what a coordinator and its agents take, and nothing is lost or laid open.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use super::*;

struct Scratch(PathBuf);

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn fresh(name: &str) -> (Folder, Scratch) {
    let dir = std::env::temp_dir().join(format!("preclaim-pki-{}-{name}", std::process::id()));
    let _ = fs::remove_dir_all(&dir);
    (Folder::at(&dir), Scratch(dir))
}

fn agent(name: &str) -> Agent {
    Agent::new(name).unwrap()
}

fn states(folder: &Folder, now: i64) -> Vec<(String, Standing)> {
    folder.list(now).unwrap().into_iter().map(|issued| (issued.name, issued.standing)).collect()
}

#[test]
fn keys_are_their_owners_alone_and_nothing_is_written_over_unasked() {
    let (folder, _scratch) = fresh("modes");
    assert!(matches!(folder.agent(&agent("a"), 1, false), Err(FolderError::NoAuthority { .. })));
    folder.init(30, false).unwrap();
    folder.server(&["localhost".into(), "127.0.0.1".into()], 9, false).unwrap();
    folder.agent(&agent("a/b"), 9, false).unwrap();
    for (name, mode) in [
        ("", 0o700),
        ("ca.key", 0o600),
        ("server.key", 0o600),
        ("agents/a%2Fb.key", 0o600),
        ("ca.crt", 0o644),
        ("ca.crl", 0o644),
    ] {
        let found = fs::metadata(folder.file(name)).unwrap().permissions().mode() & 0o777;
        assert_eq!(found, mode, "{name}");
    }
    let key = fs::read(folder.file("ca.key")).unwrap();
    assert!(matches!(folder.init(30, false), Err(FolderError::There { .. })));
    assert!(matches!(folder.server(&["x".into()], 9, false), Err(FolderError::There { .. })));
    assert!(matches!(folder.agent(&agent("a/b"), 9, false), Err(FolderError::There { .. })));
    assert_eq!(fs::read(folder.file("ca.key")).unwrap(), key);
    folder.agent(&agent("a/b"), 9, true).unwrap();
    let left: Vec<_> = fs::read_dir(&folder.dir).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(!left.iter().any(|name| name.to_string_lossy().starts_with(".server")), "{left:?}");
    fs::set_permissions(folder.file("ca.key"), fs::Permissions::from_mode(0o644)).unwrap();
    let refused = folder.agent(&agent("c"), 9, false).unwrap_err().to_string();
    assert!(refused.contains("chmod 600"), "{refused}");
}

#[test]
fn what_is_issued_is_listed_replaced_revoked_and_expires() {
    let (folder, _scratch) = fresh("life");
    let now = crate::pki::now();
    folder.init(30, false).unwrap();
    folder.server(&["localhost".into(), "::1".into()], 400, false).unwrap();
    let first = folder.agent(&agent("a"), 9, false).unwrap();
    folder.agent(&agent("b"), 5, false).unwrap();
    assert_eq!(first.days_left(now), 9);
    let listed = folder.list(now).unwrap();
    let names: Vec<&str> = listed.iter().map(|issued| issued.name.as_str()).collect();
    assert_eq!(names, ["certificate authority", "localhost,::1", "a", "b"]);
    assert!(listed.iter().all(|issued| issued.standing == Standing::Good && issued.file.is_some()));
    assert_eq!(listed[1].certificate.days_left(now), 30, "nothing outlasts its authority");
    let second = folder.rotate_agent(&agent("a"), None).unwrap();
    assert_ne!(second.serial, first.serial);
    assert_eq!((lasted(&second), second.uris.clone()), (9, first.uris.clone()));
    let server = folder.rotate_server(Some(3)).unwrap();
    assert_eq!((server.dns.len(), server.ips.len(), server.days_left(now)), (1, 1, 3));
    let replaced = |at: usize| states(&folder, now)[at].1;
    assert_eq!((replaced(2), replaced(4)), (Standing::Replaced, Standing::Replaced));
    folder.revoke_serial(&first.serial[..12]).unwrap();
    let of_a = |folder: &Folder, now| -> Vec<Standing> {
        let states = states(folder, now).into_iter();
        states.filter(|(name, _)| name == "a").map(|(_, standing)| standing).collect()
    };
    let mut both = of_a(&folder, now);
    both.sort_by_key(|standing| *standing as u8);
    assert_eq!(both, [Standing::Good, Standing::Revoked]);
    assert_eq!(folder.revoke_agent(&agent("a")).unwrap(), (1, 0), "the other one was revoked already");
    assert_eq!(of_a(&folder, now), [Standing::Revoked, Standing::Revoked]);
    assert!(matches!(folder.revoke_agent(&agent("a")), Err(FolderError::Nobody { .. })));
    assert!(matches!(folder.revoke_agent(&agent("nobody")), Err(FolderError::Nobody { .. })));
    let later = states(&folder, now + 6 * 86_400);
    assert!(later.contains(&("b".into(), Standing::Expired)), "{later:?}");
}

#[test]
fn a_token_is_kept_as_its_digest_and_goes_with_its_agent() {
    let (folder, _scratch) = fresh("tokens");
    let token = folder.token(&agent("a b")).unwrap();
    folder.token(&agent("c")).unwrap();
    let kept = fs::read_to_string(folder.file("tokens")).unwrap();
    assert!(
        !kept.contains(&token.reveal()[9..]) && kept.contains(&TokenDigest::of(&token).to_hex()),
        "{kept}"
    );
    let whose = || folder.list_tokens().unwrap().into_iter().map(|(_, agent)| agent).collect::<Vec<_>>();
    assert_eq!(whose(), [agent("a b"), agent("c")]);
    assert_eq!(folder.revoke_agent(&agent("a b")).unwrap(), (0, 1));
    assert_eq!(whose(), [agent("c")]);
    folder.token(&agent("c")).unwrap();
    let first = folder.list_tokens().unwrap()[0].0.clone();
    assert_eq!(folder.revoke_serial(&first).unwrap(), Withdrawn::Token { agent: agent("c") });
    assert_eq!(whose(), [agent("c")]);
    assert!(matches!(folder.revoke_serial(&first), Err(FolderError::Nobody { .. })));
    let commented = format!("# mine\n\n{kept}");
    assert_eq!(Folder::parse_tokens(&commented).unwrap().len(), 2);
    for bad in ["x", "00  a", &kept[..64], &format!("{} \u{7}", &kept[..64])] {
        assert!(Folder::parse_tokens(bad).unwrap_err().contains("line 1"), "{bad}");
    }
}
