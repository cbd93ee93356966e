import java.time.Duration;
import java.util.List;
import java.util.Properties;
import org.apache.kafka.clients.consumer.KafkaConsumer;

/**
 * A consumer that is a member of a group until it is killed: arguments are broker,
 * group, topic, and the group protocol (classic or consumer). It prints "joined"
 * when it has partitions, and "failed" with the reason when it is refused.
 */
public class GroupMember {
    public static void main(String[] args) {
        Properties p = new Properties();
        p.put("bootstrap.servers", args[0]);
        p.put("group.id", args[1]);
        p.put("group.protocol", args[3]);
        p.put("auto.offset.reset", "earliest");
        p.put("enable.auto.commit", "true");
        p.put("auto.commit.interval.ms", "500");
        p.put("key.deserializer", "org.apache.kafka.common.serialization.ByteArrayDeserializer");
        p.put("value.deserializer", "org.apache.kafka.common.serialization.ByteArrayDeserializer");
        try (KafkaConsumer<byte[], byte[]> c = new KafkaConsumer<>(p)) {
            c.subscribe(List.of(args[2]));
            boolean joined = false;
            while (true) {
                c.poll(Duration.ofMillis(200));
                if (!joined && !c.assignment().isEmpty()) {
                    joined = true;
                    System.out.println("joined");
                }
            }
        } catch (Exception e) {
            System.out.println("failed " + e);
            System.exit(1);
        }
    }
}
