//! Every network namespace of the machine, as `diagnose --all-netns` sees it.

#[path = "../../linux/tests/asking/mod.rs"]
mod asking;

use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::process::{Command, Stdio};

use linux::LabNetns;
use serde_json::{Value, json};

#[test]
fn a_connection_of_another_namespace_is_seen_with_its_place() {
    let Some([netns]) = asking::permitted(LabNetns::create(["apart"])) else {
        return;
    };
    let handle = netns.handle();
    // A namespace is found by the processes in it.
    let mut resident = handle
        .run(|| {
            Command::new("sleep")
                .arg("60")
                .stdout(Stdio::null())
                .spawn()
        })
        .expect("we made it")
        .expect("sleep");
    let (listener, stream) = handle
        .run(|| {
            linux::netlink::link::set_up("lo").expect("a namespace of ours");
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
            let stream = TcpStream::connect(listener.local_addr().expect("its address"));
            (listener, stream.expect("it listens"))
        })
        .expect("we made it");
    let local = stream.local_addr().expect("its address").to_string();
    let output = Command::new(env!("CARGO_BIN_EXE_tcptailor"))
        .args(["diagnose", "--all-netns", "-t", "1s", "--json"])
        .output()
        .expect("our program");
    let elsewhere = Command::new(env!("CARGO_BIN_EXE_tcptailor"))
        .args(["diagnose", "src", &local, "-t", "1s"])
        .output()
        .expect("our program");
    resident
        .kill()
        .and_then(|()| resident.wait())
        .expect("it ran");
    drop((listener, stream));
    let document: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let flows = document["flows"].as_array().expect("a list");
    // Both ends are there, and may be one row.
    let is_it = |flow: &&Value| [&flow["local"], &flow["remote"]].contains(&&Value::from(&*local));
    let row = flows.iter().find(is_it);
    if row.is_none() && document["netns_left_out"] != 0 {
        return asking::skip("the program may not enter the namespace that the test made");
    }
    let row = row.unwrap_or_else(|| panic!("{local} is not in {document:#}"));
    // Who does not find it is told where else to look.
    let told = String::from_utf8_lossy(&elsewhere.stderr);
    assert!(told.contains("--all-netns"), "{told}");
    let place = match netns.is_mounted() {
        true => json!({ "named": netns.name() }),
        false => json!({ "of-process": resident.id() }),
    };
    assert_eq!(row["netns"], place, "{row:#}");
    assert_eq!(row["container"], Value::Null);
}
