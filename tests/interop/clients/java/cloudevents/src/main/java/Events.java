import com.sun.net.httpserver.HttpServer;
import io.cloudevents.CloudEvent;
import io.cloudevents.core.builder.CloudEventBuilder;
import io.cloudevents.core.message.MessageWriter;
import io.cloudevents.http.HttpMessageFactory;
import java.io.IOException;
import java.io.OutputStream;
import java.io.PrintStream;
import java.io.UncheckedIOException;
import java.net.HttpURLConnection;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.URI;
import java.net.URL;
import java.nio.charset.StandardCharsets;
import java.time.OffsetDateTime;

/**
 * Events with the Java SDK of CloudEvents: `send URL` or `receive`.
 *
 * send      posts one event in binary mode, one in JSON and one in protobuf, and prints the statuses
 * receive   listens on loopback; prints its port, then each event as one line of JSON with its data as text
 */
final class Events {
    private Events() {
    }

    /** The SDK does not percent-encode header fields, so the subject of an event in binary mode has nothing to be encoded. */
    private static CloudEvent made(String id, String subject) {
        byte[] data = "{\"from\":\"Java\",\"text\":\"é\"}".getBytes(StandardCharsets.UTF_8);
        return CloudEventBuilder.v1().withId(id).withSource(URI.create("/java")).withType("com.example.sent")
                .withSubject(subject).withTime(OffsetDateTime.parse("2026-11-21T03:00:00Z")).withExtension("count", 7)
                .withExtension("partitionkey", "p").withData("application/json", data).build();
    }

    private static void send(String url) throws Exception {
        for (String format : new String[] {"", "application/cloudevents+json", "application/cloudevents+protobuf"}) {
            HttpURLConnection connection = (HttpURLConnection) new URL(url).openConnection();
            connection.setRequestMethod("POST");
            connection.setDoOutput(true);
            MessageWriter<?, ?> writer = HttpMessageFactory.createWriter(connection::setRequestProperty, body -> {
                try (OutputStream out = connection.getOutputStream()) {
                    out.write(body);
                } catch (IOException error) {
                    throw new UncheckedIOException(error);
                }
            });
            if (format.isEmpty()) {
                writer.writeBinary(made("java-binary", "a/b"));
            } else {
                writer.writeStructured(made("java-" + format.substring(format.indexOf('+') + 1), "größe 100%"), format);
            }
            System.out.println(connection.getResponseCode());
        }
    }

    private static String quoted(Object value) {
        String text = String.valueOf(value);
        return "\"" + text.replace("\\", "\\\\").replace("\"", "\\\"").replace("\n", "\\n") + "\"";
    }

    private static String line(CloudEvent event) {
        String data = event.getData() == null ? "" : new String(event.getData().toBytes(), StandardCharsets.UTF_8);
        return "{\"id\":" + quoted(event.getId()) + ",\"source\":" + quoted(event.getSource()) + ",\"type\":"
                + quoted(event.getType()) + ",\"subject\":" + quoted(event.getSubject()) + ",\"count\":"
                + quoted(event.getExtension("count")) + ",\"data\":" + quoted(data) + "}";
    }

    private static void receive() throws Exception {
        HttpServer server = HttpServer.create(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0), 0);
        PrintStream out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        server.createContext("/", exchange -> {
            byte[] body = exchange.getRequestBody().readAllBytes();
            int status = 204;
            try {
                out.println(line(HttpMessageFactory.createReaderFromMultimap(exchange.getRequestHeaders(), body).toEvent()));
            } catch (RuntimeException error) {
                out.println("{\"error\":" + quoted(error) + "}");
                status = 400;
            }
            exchange.sendResponseHeaders(status, -1);
            exchange.close();
        });
        server.start();
        out.println(server.getAddress().getPort());
    }

    public static void main(String[] arguments) throws Exception {
        if (arguments[0].equals("send")) {
            send(arguments[1]);
        } else {
            receive();
        }
    }
}
