import frame.Performance;
import frame.Programme;
import java.io.FileInputStream;
import java.io.InputStream;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.KeyFactory;
import java.security.PrivateKey;
import java.security.cert.Certificate;
import java.security.cert.CertificateFactory;
import java.security.cert.X509Certificate;
import java.security.spec.PKCS8EncodedKeySpec;
import java.util.Arrays;
import java.util.Base64;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.eclipse.californium.core.CoapClient;
import org.eclipse.californium.core.CoapHandler;
import org.eclipse.californium.core.CoapObserveRelation;
import org.eclipse.californium.core.CoapResponse;
import org.eclipse.californium.core.coap.CoAP.Code;
import org.eclipse.californium.core.coap.CoAP.ResponseCode;
import org.eclipse.californium.core.coap.MediaTypeRegistry;
import org.eclipse.californium.core.coap.Option;
import org.eclipse.californium.core.coap.Request;
import org.eclipse.californium.core.config.CoapConfig;
import org.eclipse.californium.core.network.CoapEndpoint;
import org.eclipse.californium.cose.AlgorithmID;
import org.eclipse.californium.elements.config.Configuration;
import org.eclipse.californium.oscore.HashMapCtxDB;
import org.eclipse.californium.oscore.OSCoreCoapStackFactory;
import org.eclipse.californium.oscore.OSCoreCtx;
import org.eclipse.californium.scandium.DTLSConnector;
import org.eclipse.californium.scandium.config.DtlsConfig;
import org.eclipse.californium.scandium.config.DtlsConnectorConfig;
import org.eclipse.californium.scandium.dtls.CertificateType;
import org.eclipse.californium.scandium.dtls.cipher.CipherSuite;
import org.eclipse.californium.scandium.dtls.pskstore.AdvancedSinglePskStore;
import org.eclipse.californium.scandium.dtls.x509.NewAdvancedCertificateVerifier;
import org.eclipse.californium.scandium.dtls.x509.SingleCertificateProvider;
import org.eclipse.californium.scandium.dtls.x509.StaticNewAdvancedCertificateVerifier;

/**
 * Devices with Californium. Arguments: ports of CoAP and of DTLS, certificate, key; then names of scenes, none: all.
 *
 * The node has a user `sensor` with the password `a long secret` and an OSCORE context, and takes the certificate as that of
 * `localhost`. All three may do everything.
 */
final class Devices {
    static {
        CoapConfig.register();
        DtlsConfig.register();
    }

    private static final class Stage extends Performance {
        final String name;
        final CoapEndpoint endpoint;
        final String base;
        final boolean sealed;

        Stage(Kill kill, String name, CoapEndpoint endpoint, String base, boolean sealed) {
            super(kill);
            this.name = name;
            this.endpoint = endpoint;
            this.base = base;
            this.sealed = sealed;
            atEnd(endpoint::destroy);
        }

        CoapClient client(String path) {
            CoapClient client = new CoapClient(base + "/mq/californium/" + name + path);
            client.setEndpoint(endpoint);
            client.setTimeout(30_000L);
            return client;
        }

        Request request(Code code, String body) {
            Request request = new Request(code);
            if (!body.isEmpty()) {
                request.setPayload(body);
                request.getOptions().setContentFormat(MediaTypeRegistry.TEXT_PLAIN);
            }
            if (sealed) {
                request.getOptions().setOscore(new byte[0]);
            }
            return request;
        }

        /** Sends a request; again with the Echo value of a 4.01, which Californium leaves to the application. */
        CoapResponse ask(String path, Code code, String body) throws Exception {
            CoapClient client = client(path);
            CoapResponse response = client.advanced(request(code, body));
            check(response != null, "no response to " + code + " " + path);
            List<Option> echo = response.advanced().getOptions().getOthers(ECHO);
            if (response.getCode() == ResponseCode.UNAUTHORIZED && !echo.isEmpty()) {
                Request again = request(code, body);
                again.getOptions().addOption(echo.get(0));
                response = client.advanced(again);
            }
            check(response != null, "no response to the repeated " + code + " " + path);
            return response;
        }

        void expect(String path, Code code, String body, ResponseCode wanted) throws Exception {
            CoapResponse response = ask(path, code, body);
            check(response.getCode() == wanted, code + " " + path + ": " + response.getCode() + " " + response.getResponseText());
        }
    }

    private static final int ECHO = 252;

    private Devices() {
    }

    /** Every method, a value in blocks both ways, and an observation where Californium can. */
    private static void scene(Stage stage) throws Exception {
        stage.expect("/a", Code.PUT, "20.5", ResponseCode.CREATED);
        stage.expect("/a", Code.PUT, "21.5", ResponseCode.CHANGED);
        CoapResponse value = stage.ask("/a", Code.GET, "");
        Performance.check(value.getResponseText().equals("21.5"), "the value is " + value.getResponseText());
        stage.expect("/a", Code.POST, "passing", ResponseCode.CREATED);
        stage.expect("/none", Code.GET, "", ResponseCode.NOT_FOUND);
        char[] large = new char[20_000];
        Arrays.fill(large, 'x');
        stage.expect("/large", Code.PUT, new String(large), ResponseCode.CREATED);
        String read = stage.ask("/large", Code.GET, "").getResponseText();
        Performance.check(read.equals(new String(large)), "a large value has " + read.length() + " characters");
        if (!stage.sealed) {
            // With OSCORE Californium takes the order of notifications from the Observe option inside, which is empty (RFC 8613,
            // section 4.1.3.5.2), and drops all but the first as old ones.
            observe(stage);
        }
        stage.expect("/a", Code.DELETE, "", ResponseCode.DELETED);
        stage.expect("/a", Code.GET, "", ResponseCode.NOT_FOUND);
    }

    private static void observe(Stage stage) throws Exception {
        BlockingQueue<String> heard = new LinkedBlockingQueue<>();
        CoapClient client = stage.client("/live");
        Request request = stage.request(Code.GET, "");
        request.setObserve();
        CoapObserveRelation relation = client.observeAndWait(request, new CoapHandler() {
            @Override
            public void onLoad(CoapResponse response) {
                heard.add(response.getResponseText());
            }

            @Override
            public void onError() {
                heard.add("an error");
            }
        });
        Performance.check(!relation.isCanceled(), "the observation was refused: " + relation.getCurrent());
        Performance.check("".equals(heard.poll(30, TimeUnit.SECONDS)), "there is no value yet");
        for (int number = 0; number < 5; number++) {
            stage.expect("/live", Code.POST, "n" + number, ResponseCode.CREATED);
            String note = heard.poll(30, TimeUnit.SECONDS);
            Performance.check(("n" + number).equals(note), "notification " + number + " is " + note);
        }
        relation.reactiveCancel();
    }

    private static Configuration configuration() {
        return Configuration.createStandardWithoutFile().set(CoapConfig.MAX_RESOURCE_BODY_SIZE, 65_536);
    }

    private static CoapEndpoint secured(DtlsConnectorConfig.Builder builder) throws Exception {
        builder.setAddress(new InetSocketAddress("127.0.0.1", 0));
        return new CoapEndpoint.Builder().setConfiguration(configuration())
            .setConnector(new DTLSConnector(builder.build())).build();
    }

    private static CoapEndpoint withKey() throws Exception {
        DtlsConnectorConfig.Builder builder = DtlsConnectorConfig.builder(configuration());
        builder.set(DtlsConfig.DTLS_ROLE, DtlsConfig.DtlsRole.CLIENT_ONLY);
        builder.set(DtlsConfig.DTLS_CIPHER_SUITES, Collections.singletonList(CipherSuite.TLS_PSK_WITH_AES_128_CCM_8));
        builder.setAdvancedPskStore(new AdvancedSinglePskStore("sensor", "a long secret".getBytes(StandardCharsets.UTF_8)));
        return secured(builder);
    }

    private static CoapEndpoint withCertificate(String certificate, String key) throws Exception {
        X509Certificate own;
        try (InputStream in = new FileInputStream(certificate)) {
            own = (X509Certificate) CertificateFactory.getInstance("X.509").generateCertificate(in);
        }
        String text = Files.readString(Path.of(key)).replaceAll("-----[A-Z ]+-----|\\s", "");
        PrivateKey secret = KeyFactory.getInstance("EC").generatePrivate(new PKCS8EncodedKeySpec(Base64.getDecoder().decode(text)));
        DtlsConnectorConfig.Builder builder = DtlsConnectorConfig.builder(configuration());
        builder.set(DtlsConfig.DTLS_ROLE, DtlsConfig.DtlsRole.CLIENT_ONLY);
        builder.setCertificateIdentityProvider(
            new SingleCertificateProvider(secret, new Certificate[] {own}, CertificateType.X_509));
        NewAdvancedCertificateVerifier trusted =
            StaticNewAdvancedCertificateVerifier.builder().setTrustedCertificates(own).build();
        builder.setAdvancedCertificateVerifier(trusted);
        return secured(builder);
    }

    private static CoapEndpoint protectedBy(String base) throws Exception {
        HashMapCtxDB contexts = new HashMapCtxDB();
        byte[] secret = new byte[16];
        for (int at = 0; at < secret.length; at++) {
            secret[at] = (byte) (at + 1);
        }
        contexts.addContext(base, new OSCoreCtx(secret, true, AlgorithmID.AES_CCM_16_64_128, new byte[] {1}, new byte[] {2},
            AlgorithmID.HKDF_HMAC_SHA_256, 32, null, null, 65_536));
        return plain().setCoapStackFactory(new OSCoreCoapStackFactory()).setCustomCoapStackArgument(contexts).build();
    }

    private static CoapEndpoint.Builder plain() {
        return new CoapEndpoint.Builder().setConfiguration(configuration())
            .setInetSocketAddress(new InetSocketAddress("127.0.0.1", 0));
    }

    private static Stage stage(String name, Performance.Kill kill, String[] arguments) {
        String open = "coap://127.0.0.1:" + arguments[0];
        String secure = "coaps://127.0.0.1:" + arguments[1];
        try {
            switch (name) {
                case "udp":
                    return new Stage(kill, name, plain().build(), open, false);
                case "key":
                    return new Stage(kill, name, withKey(), secure, false);
                case "certificate":
                    return new Stage(kill, name, withCertificate(arguments[2], arguments[3]), secure, false);
                default:
                    return new Stage(kill, name, protectedBy(open), open, true);
            }
        } catch (Exception error) {
            throw new IllegalStateException(error);
        }
    }

    public static void main(String[] arguments) throws Exception {
        Map<String, Programme.Scene<Stage>> scenes = new LinkedHashMap<>();
        for (String name : new String[] {"udp", "key", "certificate", "oscore"}) {
            scenes.put(name, Devices::scene);
        }
        List<String> named = Arrays.asList(arguments).subList(4, arguments.length);
        Programme.play(scenes, named, false, (name, kill) -> stage(name, kill, arguments));
    }
}
