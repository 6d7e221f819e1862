//! What is reserved before it is paid for is sold once; read-then-write and a lock that expires sell it twice.

#[allow(dead_code, reason = "its main and its printing are not called here")]
#[path = "../../examples/stock/main.rs"]
mod example;

use std::time::Duration;

use example::{Answer, Guard, Lock, Scale, with, without};

/// Small pools, that many shoppers come to.
fn scale() -> Scale {
    let ms = Duration::from_millis;
    Scale {
        pools: [24, 18],
        agents: 6,
        shoppers: 90,
        northern: [70, 40],
        apart: ms(8),
        reservation: ms(700),
        lock_expires: ms(20),
        confirm_within: ms(80),
        silent_at: 3,
        mishaps: 5,
        seed: 3,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reserved_unit_is_sold_once_though_agents_die_and_stall() {
    let account = with(&scale()).await.unwrap();
    account.check_with().unwrap();
    assert_eq!((account.oversold(), account.count(Answer::PromiseBroken)), (0, 0));
    assert!(account.sold() > 30, "most of the 42 were sold: {account:?}");
    assert!(account.count(Answer::Died) > 0, "somebody died in the midst of a sale: {account:?}");
    assert!(account.count(Answer::Refunded) > 0, "somebody was stopped past the reservation: {account:?}");
    let [in_one, in_two] = account.settlements();
    assert_eq!(in_one + in_two, account.sold(), "each sale lowered a capacity");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_number_that_is_read_and_written_later_is_sold_more_often_than_it_is_there() {
    let account = without(&scale(), "read, then write", Guard::Nothing).await.unwrap();
    assert!(account.oversold() > 0, "{account:?}");
    let account = without(&scale(), "the store's decrement", Guard::Decrement).await.unwrap();
    assert_eq!(account.oversold(), 0);
    assert!(account.count(Answer::Refunded) > 0, "but some pay for what is not there: {account:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn under_a_lock_that_expires_too_early_more_is_sold_than_is_there() {
    let account = without(&scale(), "a lock", Guard::Lock(Lock::stand_in())).await.unwrap();
    assert!(account.oversold() > 0, "{account:?}");
}

/// Reserved for an hour, the one unit could not be sold after a transfer that came to nothing, had that not given it back.
#[tokio::test(flavor = "multi_thread")]
async fn a_transfer_that_is_not_confirmed_in_time_gives_back_what_it_had_reserved_in_both_regions() {
    let hour = Duration::from_secs(3600);
    let scale = Scale {
        pools: [0, 1],
        shoppers: 120,
        northern: [100, 100],
        reservation: hour,
        silent_at: 1,
        mishaps: 0,
        ..scale()
    };
    let account = with(&scale).await.unwrap();
    account.check_with().unwrap();
    assert!(account.count(Answer::TransferFailed) > 0, "{account:?}");
    assert_eq!((account.sold(), account.left_over()), (1, 0));
}
