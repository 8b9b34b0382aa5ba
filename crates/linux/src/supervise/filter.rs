//! The seccomp filter of a supervised program: which of its system calls the kernel shows to us.
//!
//! Only calls that are rare and that name a socket: everything else passes in the kernel, for some
//! nanoseconds per call. Calls of another architecture (a 32-bit program on a 64-bit kernel, x32)
//! pass too: their numbers mean something else.

use libc::sock_filter;

use super::setting::{Forced, SocketSetting};

/// `AUDIT_ARCH_*` of `include/uapi/linux/audit.h`: the ELF machine, 64 bits, little endian.
#[cfg(target_arch = "x86_64")]
const ARCH: u32 = 0xc000_003e;
#[cfg(target_arch = "aarch64")]
const ARCH: u32 = 0xc000_00b7;
/// No filter is made for others.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
const ARCH: u32 = 0;

/// Offsets in `struct seccomp_data` (`include/uapi/linux/seccomp.h`).
const NUMBER: u32 = 0;
const ARCHITECTURE: u32 = 4;

/// The lower half of an argument: descriptors, levels, options and flags are 32-bit numbers.
const fn argument(index: u32) -> u32 {
    16 + 8 * index
}

/// Whether a filter can be made for this processor.
pub(super) const fn is_supported() -> bool {
    ARCH != 0
}

/// A call that the kernel shows to us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shown {
    /// A connection is about to be opened: `connect`, or a send with `MSG_FASTOPEN`.
    Connect,
    /// A socket is about to listen.
    Listen,
    /// An option that is forced is about to be set.
    SetOption(Forced),
}

/// Calls that the filter hands to us, as the supervisor reads them.
pub(super) fn shown(number: i32, arguments: &[u64; 6]) -> Option<Shown> {
    // The kernel reads these as `int`; the upper halves are whatever the program left there.
    let int = |index: usize| arguments[index] as u32 as i32;
    match libc::c_long::from(number) {
        libc::SYS_connect | libc::SYS_sendto | libc::SYS_sendmsg => Some(Shown::Connect),
        libc::SYS_listen => Some(Shown::Listen),
        libc::SYS_setsockopt => Some(Shown::SetOption(Forced {
            level: int(1),
            option: int(2),
        })),
        _ => None,
    }
}

/// The filter for these settings.
pub(super) fn program(settings: &[SocketSetting]) -> Vec<sock_filter> {
    let fast_open = libc::MSG_FASTOPEN.cast_unsigned();
    let forced: Vec<Forced> = settings.iter().flat_map(SocketSetting::forced).collect();
    let mut program = vec![
        load(ARCHITECTURE),
        jump_equal(ARCH, 1, 0),
        answer(libc::SECCOMP_RET_ALLOW),
        load(NUMBER),
    ];
    for call in [libc::SYS_connect, libc::SYS_listen] {
        program.push(jump_equal(number_of(call), 0, 1));
        program.push(answer(libc::SECCOMP_RET_USER_NOTIF));
    }
    for (call, flags) in [(libc::SYS_sendto, 3), (libc::SYS_sendmsg, 2)] {
        program.extend([
            jump_equal(number_of(call), 0, 4),
            load(argument(flags)),
            jump_set(fast_open, 0, 1),
            answer(libc::SECCOMP_RET_USER_NOTIF),
            answer(libc::SECCOMP_RET_ALLOW),
        ]);
    }
    program.push(jump_equal(number_of(libc::SYS_setsockopt), 1, 0));
    program.push(answer(libc::SECCOMP_RET_ALLOW));
    for Forced { level, option } in forced {
        program.extend([
            load(argument(1)),
            jump_equal(level.cast_unsigned(), 0, 3),
            load(argument(2)),
            jump_equal(option.cast_unsigned(), 0, 1),
            answer(libc::SECCOMP_RET_USER_NOTIF),
        ]);
    }
    program.push(answer(libc::SECCOMP_RET_ALLOW));
    program
}

/// System calls are numbered from zero.
fn number_of(call: libc::c_long) -> u32 {
    u32::try_from(call).expect("a system call's number")
}

const fn load(offset: u32) -> sock_filter {
    instruction(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, offset, (0, 0))
}

const fn jump_equal(value: u32, then: u8, otherwise: u8) -> sock_filter {
    let code = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
    instruction(code, value, (then, otherwise))
}

const fn jump_set(bits: u32, then: u8, otherwise: u8) -> sock_filter {
    let code = libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K;
    instruction(code, bits, (then, otherwise))
}

const fn answer(action: u32) -> sock_filter {
    instruction(libc::BPF_RET | libc::BPF_K, action, (0, 0))
}

const fn instruction(code: u32, k: u32, (jt, jf): (u8, u8)) -> sock_filter {
    sock_filter {
        code: code as u16,
        jt,
        jf,
        k,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const I386: u32 = 0x4000_0003;
    const X32_BIT: u32 = 0x4000_0000;

    /// Runs a filter as the kernel does, over the fields that it loads.
    fn run(program: &[sock_filter], arch: u32, number: u32, arguments: [u32; 6]) -> u32 {
        let (mut at, mut value) = (0, 0);
        loop {
            let sock_filter { code, jt, jf, k } = program[at];
            at += 1;
            let goes = match u32::from(code) {
                code if code == libc::BPF_LD | libc::BPF_W | libc::BPF_ABS => {
                    value = match k {
                        NUMBER => number,
                        ARCHITECTURE => arch,
                        k => arguments[((k - 16) / 8) as usize],
                    };
                    continue;
                }
                code if code == libc::BPF_RET | libc::BPF_K => return k,
                code if code == libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K => value == k,
                code if code == libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K => value & k != 0,
                code => panic!("{code:#x}"),
            };
            at += usize::from(if goes { jt } else { jf });
        }
    }

    #[track_caller]
    fn check(settings: &[&str], call: libc::c_long, arguments: [i32; 6], is_shown: bool) {
        let settings: Vec<SocketSetting> =
            settings.iter().map(|text| text.parse().unwrap()).collect();
        let program = program(&settings);
        let arguments = arguments.map(i32::cast_unsigned);
        let expected = match is_shown {
            true => libc::SECCOMP_RET_USER_NOTIF,
            false => libc::SECCOMP_RET_ALLOW,
        };
        let number = number_of(call);
        assert_eq!(run(&program, ARCH, number, arguments), expected);
        // The same number means another call there.
        for (arch, number) in [(I386, number), (ARCH, number | X32_BIT)] {
            let passed = run(&program, arch, number, arguments);
            assert_eq!(passed, libc::SECCOMP_RET_ALLOW, "{arch:#x} {number:#x}");
        }
        let seen = shown(number.cast_signed(), &arguments.map(u64::from));
        assert!(seen.is_some() || !is_shown);
    }

    #[test]
    fn only_calls_that_matter_are_shown() {
        let fast_open = libc::MSG_FASTOPEN;
        let (tcp, socket) = (libc::IPPROTO_TCP, libc::SOL_SOCKET);
        check(&[], libc::SYS_connect, [3, 0, 0, 0, 0, 0], true);
        check(&[], libc::SYS_listen, [3, 128, 0, 0, 0, 0], true);
        check(&[], libc::SYS_sendto, [3, 0, 9, 0, 0, 0], false);
        check(&[], libc::SYS_sendto, [3, 0, 9, fast_open, 0, 0], true);
        check(&[], libc::SYS_sendmsg, [3, 0, fast_open, 0, 0, 0], true);
        check(&[], libc::SYS_sendmsg, [3, 0, 0, fast_open, 0, 0], false);
        check(&[], libc::SYS_write, [3, 0, 9, fast_open, 0, 0], false);
        check(&[], libc::SYS_setsockopt, [3, tcp, 1, 0, 4, 0], false);
        let both = ["nodelay=on", "sndbuf=auto"];
        check(&both, libc::SYS_setsockopt, [3, tcp, 1, 0, 4, 0], true);
        check(&both, libc::SYS_setsockopt, [3, tcp, 7, 0, 4, 0], false);
        check(&both, libc::SYS_setsockopt, [3, tcp, 32, 0, 4, 0], false);
        check(&both, libc::SYS_setsockopt, [3, socket, 7, 0, 4, 0], true);
        check(&both, libc::SYS_setsockopt, [3, socket, 32, 0, 4, 0], true);
        check(&both, libc::SYS_setsockopt, [3, socket, 8, 0, 4, 0], false);
        check(&both, libc::SYS_getsockopt, [3, socket, 7, 0, 4, 0], false);
    }

    #[test]
    fn a_filter_for_every_setting_has_a_bounded_length() {
        let all: Vec<SocketSetting> = [
            "nodelay=on",
            "cork=off",
            "congestion=reno",
            "sndbuf=auto",
            "rcvbuf=auto",
            "notsent_lowat=16KiB",
            "delack_max=40ms",
            "mss=1000B",
        ]
        .iter()
        .map(|text| text.parse().unwrap())
        .collect();
        let program = program(&all);
        // BPF_MAXINSNS is 4096.
        assert!(program.len() < 100, "{}", program.len());
    }
}
