// Netstack, the TCP/IP of gVisor, on a TUN device under the contract of the peers: it discards on
// port 5001, sends without end on 5002 and echoes on 5003.
//
// The link is netstack's own fdbased endpoint, or with -gso the one below, which lets the kernel
// cut and join segments: netstack can do that, but its endpoint asks for it on sockets only.
package main

import (
	"encoding/binary"
	"flag"
	"fmt"
	"io"
	"log"
	"net"

	"golang.org/x/sys/unix"
	"gvisor.dev/gvisor/pkg/buffer"
	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/adapters/gonet"
	"gvisor.dev/gvisor/pkg/tcpip/header"
	"gvisor.dev/gvisor/pkg/tcpip/link/fdbased"
	"gvisor.dev/gvisor/pkg/tcpip/network/ipv4"
	"gvisor.dev/gvisor/pkg/tcpip/stack"
	"gvisor.dev/gvisor/pkg/tcpip/transport/tcp"
)

const (
	nic           = 1
	initialBuffer = 1 << 20
	chunk         = 256 << 10
)

var (
	mtu       = flag.Uint("mtu", 1500, "largest packet, bytes")
	gso       = flag.Bool("gso", false, "take and send superpackets")
	maxBuffer = flag.Int("buffer", 4<<20, "most that a socket buffers in each direction, bytes")
)

func main() {
	flag.Parse()
	s := stack.New(stack.Options{
		NetworkProtocols:   []stack.NetworkProtocolFactory{ipv4.NewProtocol},
		TransportProtocols: []stack.TransportProtocolFactory{tcp.NewProtocol},
	})
	configure(s)
	check("the interface", s.CreateNIC(nic, openLink()))
	address := tcpip.AddrFrom4([4]byte{10, 77, 0, 2})
	check("the address", s.AddProtocolAddress(nic, tcpip.ProtocolAddress{
		Protocol:          ipv4.ProtocolNumber,
		AddressWithPrefix: address.WithPrefix(),
	}, stack.AddressProperties{}))
	s.SetRouteTable([]tcpip.Route{{Destination: header.IPv4EmptySubnet, NIC: nic}})
	for port, serve := range []func(net.Conn){discard, chargen, echo} {
		listener, err := gonet.ListenTCP(s, tcpip.FullAddress{
			NIC: nic, Addr: address, Port: uint16(5001 + port),
		}, ipv4.ProtocolNumber)
		if err != nil {
			log.Fatal("listening: ", err)
		}
		go accept(listener, serve)
	}
	fmt.Println("ready")
	select {}
}

// configure chooses what a server on a long path would: SACK, CUBIC and buffers that grow. RACK is
// netstack's default.
func configure(s *stack.Stack) {
	sack := tcpip.TCPSACKEnabled(true)
	moderate := tcpip.TCPModerateReceiveBufferOption(true)
	cubic := tcpip.CongestionControlOption("cubic")
	for _, option := range []tcpip.SettableTransportProtocolOption{
		&sack, &moderate, &cubic,
		&tcpip.TCPReceiveBufferSizeRangeOption{Min: 4096, Default: initialBuffer, Max: *maxBuffer},
		&tcpip.TCPSendBufferSizeRangeOption{Min: 4096, Default: initialBuffer, Max: *maxBuffer},
	} {
		check(fmt.Sprintf("%T", option), s.SetTransportProtocolOption(tcp.ProtocolNumber, option))
	}
}

func check(what string, err tcpip.Error) {
	if err != nil {
		log.Fatal(what, ": ", err)
	}
}

func accept(listener net.Listener, serve func(net.Conn)) {
	for {
		conn, err := listener.Accept()
		if err != nil {
			log.Fatal("accepting: ", err)
		}
		go func() {
			defer conn.Close()
			serve(conn)
		}()
	}
}

func discard(conn net.Conn) {
	io.CopyBuffer(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{conn}, make([]byte, chunk))
}

func chargen(conn net.Conn) {
	data := make([]byte, chunk)
	for {
		if _, err := conn.Write(data); err != nil {
			return
		}
	}
}

func echo(conn net.Conn) {
	io.Copy(struct{ io.Writer }{conn}, struct{ io.Reader }{conn})
}

func openLink() stack.LinkEndpoint {
	fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		log.Fatal("opening /dev/net/tun: ", err)
	}
	request, err := unix.NewIfreq("stack0")
	if err != nil {
		log.Fatal(err)
	}
	flags := uint16(unix.IFF_TUN | unix.IFF_NO_PI)
	if *gso {
		flags |= unix.IFF_VNET_HDR
	}
	request.SetUint16(flags)
	if err := unix.IoctlIfreq(fd, unix.TUNSETIFF, request); err != nil {
		log.Fatal("making the TUN device: ", err)
	}
	if *gso {
		offloads := unix.TUN_F_CSUM | unix.TUN_F_TSO4
		if err := unix.IoctlSetInt(fd, unix.TUNSETOFFLOAD, offloads); err != nil {
			log.Fatal("setting the offloads: ", err)
		}
		return &gsoLink{fd: fd}
	}
	link, err := fdbased.New(&fdbased.Options{FDs: []int{fd}, MTU: uint32(*mtu)})
	if err != nil {
		log.Fatal("making the link: ", err)
	}
	return link
}

// The virtio-net header in front of each packet, and what netstack leaves to the kernel in it.
const (
	vnetBytes     = 10
	needsChecksum = 1
	tcpV4         = 1
	tcpAt         = header.IPv4MinimumSize
	tcpChecksumAt = 16
	superpacket   = 65535
)

// gsoLink is a TUN device whose packets may be superpackets.
type gsoLink struct {
	fd    int
	above stack.NetworkDispatcher
}

func (l *gsoLink) MTU() uint32                             { return uint32(*mtu) }
func (l *gsoLink) SetMTU(uint32)                           {}
func (l *gsoLink) MaxHeaderLength() uint16                 { return 0 }
func (l *gsoLink) LinkAddress() tcpip.LinkAddress          { return "" }
func (l *gsoLink) SetLinkAddress(tcpip.LinkAddress)        {}
func (l *gsoLink) IsAttached() bool                        { return l.above != nil }
func (l *gsoLink) Wait()                                   {}
func (l *gsoLink) Close()                                  {}
func (l *gsoLink) SetOnCloseAction(func())                 {}
func (l *gsoLink) ARPHardwareType() header.ARPHardwareType { return header.ARPHardwareNone }
func (l *gsoLink) AddHeader(*stack.PacketBuffer)           {}
func (l *gsoLink) ParseHeader(*stack.PacketBuffer) bool    { return true }
func (l *gsoLink) SupportedGSO() stack.SupportedGSO        { return stack.HostGSOSupported }

// GSOMaxSize leaves room for the headers.
func (l *gsoLink) GSOMaxSize() uint32 {
	return superpacket - header.IPv4MaximumHeaderSize - header.TCPHeaderMaximumSize
}

func (l *gsoLink) Capabilities() stack.LinkEndpointCapabilities {
	return stack.CapabilityTXChecksumOffload | stack.CapabilityRXChecksumOffload
}

func (l *gsoLink) Attach(above stack.NetworkDispatcher) {
	l.above = above
	if above != nil {
		go l.read()
	}
}

func (l *gsoLink) read() {
	data := make([]byte, vnetBytes+superpacket)
	for {
		length, err := unix.Read(l.fd, data)
		switch {
		case err == unix.EINTR || err == nil && length <= vnetBytes:
			continue
		case err != nil:
			log.Fatal("reading the device: ", err)
		}
		packet := stack.NewPacketBuffer(stack.PacketBufferOptions{
			Payload: buffer.MakeWithData(data[vnetBytes:length]),
		})
		// The kernel made it; what it left undone is the checksum.
		packet.RXChecksumValidated = true
		l.above.DeliverNetworkPacket(header.IPv4ProtocolNumber, packet)
		packet.DecRef()
	}
}

// WritePackets writes each packet in one call; what the kernel does not take is lost.
func (l *gsoLink) WritePackets(packets stack.PacketBufferList) (int, tcpip.Error) {
	for _, packet := range packets.AsSlice() {
		vnet := vnetOf(packet)
		_, _ = unix.Writev(l.fd, append([][]byte{vnet[:]}, packet.AsSlices()...))
	}
	return packets.Len(), nil
}

func vnetOf(packet *stack.PacketBuffer) (vnet [vnetBytes]byte) {
	if len(packet.TransportHeader().Slice()) < header.TCPMinimumSize {
		return vnet
	}
	vnet[0] = needsChecksum
	binary.NativeEndian.PutUint16(vnet[2:], uint16(packet.HeaderSize()))
	binary.NativeEndian.PutUint16(vnet[6:], tcpAt)
	binary.NativeEndian.PutUint16(vnet[8:], tcpChecksumAt)
	if mss := packet.GSOOptions.MSS; mss > 0 && packet.Data().Size() > int(mss) {
		vnet[1] = tcpV4
		binary.NativeEndian.PutUint16(vnet[4:], mss)
	}
	return vnet
}
