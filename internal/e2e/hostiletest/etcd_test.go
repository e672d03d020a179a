package hostiletest

import (
	"errors"
	"net"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/encoding"
)

// bytesCodec passes messages on as they are.
type bytesCodec struct{}

func (bytesCodec) Marshal(v any) ([]byte, error) { return *v.(*[]byte), nil }
func (bytesCodec) Unmarshal(b []byte, v any) error {
	*v.(*[]byte) = append([]byte(nil), b...)
	return nil
}
func (bytesCodec) Name() string { return "bytes" }

var _ encoding.Codec = bytesCodec{}

// answersRPC is a server of remote calls that answers each call with one message.
func answersRPC(t *testing.T, message []byte) play {
	conns := make(chan net.Conn)
	done := make(chan struct{})
	s := grpc.NewServer(grpc.ForceServerCodec(bytesCodec{}), grpc.MaxSendMsgSize(1<<30), grpc.UnknownServiceHandler(func(_ any, stream grpc.ServerStream) error {
		var request []byte
		if err := stream.RecvMsg(&request); err != nil {
			return err
		}
		return stream.SendMsg(&message)
	}))
	go func() {
		defer close(done)
		_ = s.Serve(handed(conns))
	}()
	t.Cleanup(func() {
		close(conns)
		s.Stop()
		<-done
	})
	return func(conn net.Conn) {
		closed := make(chan struct{})
		conns <- &watched{Conn: conn, closed: closed}
		<-closed
	}
}

// handed is a listener for connections that are handed to it.
type handed chan net.Conn

func (h handed) Accept() (net.Conn, error) {
	conn, ok := <-h
	if !ok {
		return nil, errors.New("no more connections")
	}
	return conn, nil
}
func (h handed) Close() error   { return nil }
func (h handed) Addr() net.Addr { return &net.TCPAddr{} }

// watched is a connection that reports its end.
type watched struct {
	net.Conn
	closed chan struct{}
}

func (w *watched) Close() error {
	select {
	case <-w.closed:
	default:
		close(w.closed)
	}
	return w.Conn.Close()
}

// What an etcd must not answer. The client has its own limits for frames, and the program one for
// messages.
func TestEtcd(t *testing.T) {
	frame := func(length, kind string) string { return length + kind + "\x00\x00\x00\x00\x00" }
	for name, c := range map[string]hostile{
		"text":             {says("this is no etcd\r\n"), `a server that sends "this is no etcd`},
		"endless text":     {repeats("", "AAAAAAAAAAAAAAAA"), `a server that sends "AAAA`},
		"silence":          {says(""), "does not answer"},
		"end":              {func(net.Conn) {}, "."},
		"frame of 16 MB":   {repeats(frame("\x00\x00\x00", "\x04")+frame("\xff\xff\xff", "\x00"), "xxxx"), "."},
		"endless settings": {repeats("", frame("\x00\x00\x00", "\x04")), "."},
		"endless pings":    {repeats(frame("\x00\x00\x00", "\x04"), frame("\x00\x00\x08", "\x06")+"12345678"), "."},
		"message of 64 MB": {answersRPC(t, []byte(strings.Repeat("x", 64<<20))), "larger than max"},
		"message of 5 MB":  {answersRPC(t, []byte(strings.Repeat("x", 5<<20))), "."},
		"broken message":   {answersRPC(t, []byte("\xff\xff\xff\xff")), "."},
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, nil, c.answer)
			s.list(t, "etcd://"+s.addr, c.text)
		})
	}
}
