import java.util.Map;
import java.util.TreeMap;
import java.util.TreeSet;
import javax.management.MBeanAttributeInfo;
import javax.management.MBeanServerConnection;
import javax.management.ObjectName;
import javax.management.remote.JMXConnector;
import javax.management.remote.JMXConnectorFactory;
import javax.management.remote.JMXServiceURL;

/** Prints the MBeans of a domain, one a line: name as it is written, then attributes with type and value. */
public class Beans {
    public static void main(String[] arguments) throws Exception {
        String address = "service:jmx:rmi:///jndi/rmi://127.0.0.1:" + arguments[0] + "/jmxrmi";
        try (JMXConnector connector = JMXConnectorFactory.connect(new JMXServiceURL(address))) {
            MBeanServerConnection server = connector.getMBeanServerConnection();
            for (ObjectName name : new TreeSet<>(server.queryNames(new ObjectName(arguments[1]), null))) {
                Map<String, String> values = new TreeMap<>();
                for (MBeanAttributeInfo attribute : server.getMBeanInfo(name).getAttributes()) {
                    Object value = server.getAttribute(name, attribute.getName());
                    values.put(attribute.getName(), attribute.getType() + " " + value);
                }
                System.out.println(name.getDomain() + ":" + name.getKeyPropertyListString() + "\t" + values);
            }
        }
    }
}
