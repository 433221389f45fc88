use proptest::prelude::*;

use super::*;

fn keys() -> Keys {
    Keys::new(Prefix::default())
}

fn resource(kind: &str, id: &str) -> ResourceId {
    ResourceId::new(Kind::parse(kind).unwrap(), id).unwrap()
}

fn all_of(resource: &ResourceId, operation: &OperationId) -> [String; 3] {
    let keys = keys();
    [
        keys.record(resource).text,
        keys.reservation(resource).text,
        keys.operation(resource, operation).text,
    ]
}

#[test]
fn keys_are_spelled_as_documented() {
    let order = resource("order", "a/1 %é\n");
    let operation = OperationId::parse("evt/1").unwrap();
    assert_eq!(
        all_of(&order, &operation),
        [
            "/fencepost/r/order/a%2F1%20%25é%0A",
            "/fencepost/h/order/a%2F1%20%25é%0A",
            "/fencepost/o/order/a%2F1%20%25é%0A/evt%2F1",
        ]
    );
    assert_eq!(keys().timeline().text, "/fencepost/meta/timeline");
    let incident = keys().incident(&IncidentId("inc-1".to_owned()));
    assert_eq!(incident.text, "/fencepost/i/inc-1");
    assert_eq!(incident.relative(), "i/inc-1");
    let kind = Kind::parse("order").unwrap();
    assert_eq!(keys().machine(&kind).text, "/fencepost/m/order");
    let version = MachineVersion::new(12).unwrap();
    assert_eq!(
        keys().machine_version(&kind, version).text,
        "/fencepost/mh/order/0000000012"
    );
}

#[test]
fn the_versions_of_one_kind_are_a_range_of_their_own_and_so_are_the_machines() {
    let keys = keys();
    let kind = |text: &str| Kind::parse(text).unwrap();
    let version = |number: u32| MachineVersion::new(number).unwrap();
    let inside = |(start, end): (Vec<u8>, Vec<u8>), key: &Key| (start..end).contains(&key.bytes());
    let orders = || keys.machine_versions(&kind("order"));
    assert!(inside(
        orders(),
        &keys.machine_version(&kind("order"), version(MachineVersion::MAX))
    ));
    for other in ["order.", "order-1", "order0", "orde", "orders"] {
        assert!(
            !inside(orders(), &keys.machine_version(&kind(other), version(1))),
            "{other}"
        );
    }
    assert!(inside(keys.machines(), &keys.machine(&kind("zzz"))));
    let older = keys.machine_version(&kind("order"), version(1));
    assert!(!inside(keys.machines(), &older));
    assert_eq!(keys.found_machine(&older.bytes()), None);
    let (key, found) = keys.found_machine(b"/fencepost/m/order").unwrap();
    assert_eq!((key, found), (keys.machine(&kind("order")), kind("order")));
    assert_eq!(keys.found_machine(b"/fencepost/m/or der"), None);
}

#[test]
fn a_prefix_is_closed_and_checked() {
    assert_eq!(Prefix::parse("/a").unwrap().as_str(), "/a/");
    assert_eq!(Prefix::parse("/a/").unwrap(), Prefix::parse("/a").unwrap());
    assert_eq!(Prefix::parse("/").unwrap().as_str(), "/");
    for bad in ["", "a/", "/a b/", "/é/", "/a\n"] {
        assert!(Prefix::parse(bad).is_err(), "{bad:?}");
    }
    assert!(Prefix::parse(&format!("/{}", "x".repeat(126))).is_ok());
    let error = Prefix::parse(&format!("/{}", "x".repeat(127))).unwrap_err();
    assert!(error.to_string().contains("129 bytes"), "{error}");
}

#[test]
fn only_incident_keys_are_read_back_as_incidents() {
    let keys = keys();
    let id = IncidentId("inc 1/2".to_owned());
    let key = keys.incident(&id);
    assert_eq!(keys.found_incident(&key.bytes()), Some((key, id)));
    for foreign in [
        &b"/fencepost/i/a%2fb"[..],
        b"/fencepost/i/a%",
        b"/fencepost/i/a/b",
        b"/fencepost/i/\xff",
        b"/other/i/a",
    ] {
        assert_eq!(keys.found_incident(foreign), None, "{foreign:?}");
    }
}

/// Ids made of the characters that could make two keys meet.
fn tricky() -> impl Strategy<Value = String> {
    prop_oneof![
        "[/%a2F0 .\\n\u{7f}]{1,6}",
        "\\PC{1,8}",
        "[\u{1}-\u{20}é🦀/]{1,5}",
    ]
}

proptest! {
    #[test]
    fn different_names_have_different_keys_and_none_lies_below_another(
        kinds in ("[ab]{1,2}", "[ab]{1,2}"),
        ids in (tricky(), tricky()),
        operations in ("[/%a2F1]{1,4}", "[/%a2F1]{1,4}"),
    ) {
        let first = resource(&kinds.0, &ids.0);
        let second = resource(&kinds.1, &ids.1);
        let first_operation = OperationId::parse(&operations.0).unwrap();
        let second_operation = OperationId::parse(&operations.1).unwrap();
        for (a, b) in all_of(&first, &first_operation)
            .iter()
            .zip(all_of(&second, &second_operation))
            .take(2)
        {
            prop_assert_eq!(*a == b, first == second);
        }
        let same = first == second && first_operation == second_operation;
        prop_assert_eq!(
            keys().operation(&first, &first_operation)
                == keys().operation(&second, &second_operation),
            same
        );
        if first != second {
            for a in all_of(&first, &first_operation) {
                for b in all_of(&second, &second_operation) {
                    prop_assert_ne!(&a, &b);
                    let below = format!("{a}/");
                    prop_assert!(!b.starts_with(&below), "{b} lies below {a}");
                }
            }
        }
    }

    #[test]
    fn records_and_operations_are_read_back_by_their_keys(
        id in tricky(),
        operation in "[/%a2F1]{1,4}",
    ) {
        let resource = resource("order", &id);
        let operation = OperationId::parse(&operation).unwrap();
        let (keys, record) = (keys(), keys().record(&resource));
        let (start, end) = keys.records_after(None);
        prop_assert!(start < record.bytes() && record.bytes() < end);
        prop_assert!(keys.records_after(Some(&record.bytes())).0 > record.bytes());
        let found = keys.found_record(&record.bytes());
        prop_assert_eq!(found, Some((record, resource.clone())));
        let key = keys.operation(&resource, &operation);
        let (start, end) = keys.operations_after(&resource, None);
        prop_assert!(start < key.bytes() && key.bytes() < end);
        let found = keys.found_operation(&resource, &key.bytes());
        prop_assert_eq!(found, Some((key, operation)));
    }

    #[test]
    fn an_incident_key_is_read_back(id in tricky()) {
        let id = IncidentId(id);
        let key = keys().incident(&id);
        prop_assert!(!key.relative()[2..].contains('/'));
        prop_assert_eq!(keys().found_incident(&key.bytes()), Some((key, id)));
    }
}

#[test]
fn a_queue_holds_the_entries_of_its_resource_in_the_order_of_arrival_and_nothing_else() {
    let keys = keys();
    let name = |arrival: u64, nonce: u8| WaiterName {
        arrival,
        nonce: Nonce::from_bytes([nonce; 16]),
    };
    let order = resource("order", "1");
    let key = keys.waiter(&order, &name(10, 0xab));
    let nonce = "ab".repeat(16);
    assert_eq!(
        key.text,
        format!("/fencepost/w/order/1/000000000000000a-{nonce}")
    );
    assert_eq!(
        keys.found_waiter(&order, &key.bytes()),
        Some((key.clone(), name(10, 0xab)))
    );
    let (start, end) = keys.waiters(&order);
    let inside = |key: &[u8]| (start.as_slice()..end.as_slice()).contains(&key);
    assert!(inside(&key.bytes()));
    let later = keys.waiter(&order, &name(u64::MAX, 0));
    assert!(inside(&later.bytes()) && key.bytes() < later.bytes());
    for (kind, id) in [
        ("order", "10"),
        ("order", "1/x"),
        ("order", "1 "),
        ("order", "1%2F"),
        ("order", "/"),
        ("orde", "r"),
        ("order", "0"),
    ] {
        let sibling = resource(kind, id);
        let key = keys.waiter(&sibling, &name(1, 1));
        assert!(!inside(&key.bytes()), "{kind} {id}");
        assert_eq!(keys.found_waiter(&order, &key.bytes()), None);
    }
    for foreign in [
        "/fencepost/w/order/1/",
        "/fencepost/w/order/1/a-b",
        "/fencepost/w/order/1/000000000000000A-abababababababababababababababab",
        "/fencepost/w/order/1/+00000000000000a-abababababababababababababababab",
    ] {
        assert_eq!(
            keys.found_waiter(&order, foreign.as_bytes()),
            None,
            "{foreign}"
        );
    }
    let session = keys.wait_session(Nonce::from_bytes([0xab; 16]));
    assert_eq!(session.text, format!("/fencepost/ws/{nonce}"));
    // No kind is spelled so that its queues could hold a session.
    assert!(!session.text.starts_with("/fencepost/w/"));
}
