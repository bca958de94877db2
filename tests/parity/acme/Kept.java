package acme;

import org.apache.kafka.connect.mirror.IdentityReplicationPolicy;

/** Keeps names, as what it is derived from. */
public class Kept extends IdentityReplicationPolicy {
}
