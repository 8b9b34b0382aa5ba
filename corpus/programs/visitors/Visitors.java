// Netty: takes what comes, with SO_RCVBUF of each connection set.
import io.netty.bootstrap.ServerBootstrap;
import io.netty.buffer.ByteBuf;
import io.netty.channel.ChannelHandlerContext;
import io.netty.channel.ChannelInitializer;
import io.netty.channel.ChannelOption;
import io.netty.channel.SimpleChannelInboundHandler;
import io.netty.channel.nio.NioEventLoopGroup;
import io.netty.channel.socket.SocketChannel;
import io.netty.channel.socket.nio.NioServerSocketChannel;

class Visitors {
    public static void main(String[] args) throws Exception {
        new ServerBootstrap().group(new NioEventLoopGroup(1)).channel(NioServerSocketChannel.class)
            .childOption(ChannelOption.SO_RCVBUF, Integer.parseInt(args[1]))
            .childHandler(new ChannelInitializer<SocketChannel>() {
                @Override protected void initChannel(SocketChannel channel) {
                    channel.pipeline().addLast(new SimpleChannelInboundHandler<ByteBuf>() {
                        @Override protected void channelRead0(ChannelHandlerContext at, ByteBuf data) {}
                    });
                }
            }).bind(Integer.parseInt(args[0])).sync().channel().closeFuture().sync();
    }
}
