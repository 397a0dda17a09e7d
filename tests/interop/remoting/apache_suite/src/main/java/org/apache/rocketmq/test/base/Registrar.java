package org.apache.rocketmq.test.base;

import java.util.ArrayList;
import java.util.List;
import org.apache.rocketmq.broker.BrokerController;
import org.apache.rocketmq.common.UtilAll;
import org.apache.rocketmq.remoting.RemotingClient;
import org.apache.rocketmq.remoting.protocol.RemotingCommand;
import org.apache.rocketmq.remoting.protocol.RequestCode;
import org.apache.rocketmq.remoting.protocol.body.RegisterBrokerBody;
import org.apache.rocketmq.remoting.protocol.body.TopicConfigAndMappingSerializeWrapper;
import org.apache.rocketmq.remoting.protocol.body.TopicConfigSerializeWrapper;
import org.apache.rocketmq.remoting.protocol.header.namesrv.RegisterBrokerRequestHeader;
import org.apache.rocketmq.tools.admin.DefaultMQAdminExt;

/** Registers each broker and its topics at the name servers of the other nodes, as brokers of RocketMQ do themselves. */
final class Registrar extends Thread {
    /** MQAdminTestUtils reads the route of a new topic after 100 ms and requires all its brokers in it. */
    private static final long POLL_MS = 30;
    private static final long AGAIN_MS = 20_000;
    private static final long TIMEOUT_MS = 3_000;

    private final DefaultMQAdminExt admin = new DefaultMQAdminExt(TIMEOUT_MS);
    private final String cluster;
    private final List<BrokerController> brokers;
    private final List<String> known = new ArrayList<>();

    private Registrar(String nameserver, String cluster, List<BrokerController> brokers) throws Exception {
        super("registrar");
        setDaemon(true);
        this.cluster = cluster;
        this.brokers = brokers;
        admin.setNamesrvAddr(nameserver);
        admin.setInstanceName("registrar");
        admin.start();
    }

    /** Registers all brokers before it returns, and again whenever their topics change. */
    static void begin(String nameserver, String cluster, List<BrokerController> brokers) {
        try {
            Registrar registrar = new Registrar(nameserver, cluster, brokers);
            registrar.round();
            registrar.start();
        } catch (Exception error) {
            throw new IllegalStateException(error);
        }
    }

    @Override
    public void run() {
        long last = System.currentTimeMillis();
        while (true) {
            try {
                Thread.sleep(POLL_MS);
                if (System.currentTimeMillis() - last > AGAIN_MS) {
                    known.clear();
                    last = System.currentTimeMillis();
                }
                round();
            } catch (Exception error) {
                System.err.println("registrar: " + error);
            }
        }
    }

    private void round() throws Exception {
        for (BrokerController each : brokers) {
            TopicConfigSerializeWrapper topics = admin.getAllTopicConfig(each.getBrokerAddr(), TIMEOUT_MS);
            String now = each.getBrokerAddr() + topics.getTopicConfigTable();
            if (!known.contains(now)) {
                known.removeIf(before -> before.startsWith(each.getBrokerAddr()));
                for (BrokerController other : brokers) {
                    if (other != each) {
                        register(each, topics, other.getBrokerAddr());
                    }
                }
                known.add(now);
            }
        }
    }

    /** The port of a node's broker serves requests to its name server too. */
    private void register(BrokerController broker, TopicConfigSerializeWrapper topics, String nameserver) throws Exception {
        RegisterBrokerBody body = new RegisterBrokerBody();
        body.setTopicConfigSerializeWrapper(TopicConfigAndMappingSerializeWrapper.from(topics));
        byte[] bytes = body.encode(false);
        RegisterBrokerRequestHeader header = new RegisterBrokerRequestHeader();
        header.setBrokerAddr(broker.getBrokerAddr());
        header.setBrokerId(0L);
        header.setBrokerName(broker.getBrokerConfig().getBrokerName());
        header.setClusterName(cluster);
        header.setHaServerAddr(broker.getBrokerAddr());
        header.setCompressed(false);
        header.setBodyCrc32(UtilAll.crc32(bytes));
        RemotingCommand request = RemotingCommand.createRequestCommand(RequestCode.REGISTER_BROKER, header);
        request.setBody(bytes);
        RemotingClient client = admin.getDefaultMQAdminExtImpl().getMqClientInstance().getMQClientAPIImpl().getRemotingClient();
        RemotingCommand answer = client.invokeSync(nameserver, request, TIMEOUT_MS);
        if (answer.getCode() != 0) {
            throw new IllegalStateException(answer.getCode() + " " + answer.getRemark());
        }
    }
}
