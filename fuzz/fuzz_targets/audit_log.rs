#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| preclaim_fuzz::run("audit_log", data));
