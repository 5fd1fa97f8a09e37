/** The actor of a recorded change. Stored by value, so that it remains readable after the actor was deleted. */
export interface Actor {
  kind: 'user' | 'key' | 'credential' | 'command-line' | 'system';
  /** usr_…, key_…, smtp_…; empty if there is none. */
  id: string;
  /** Display name: an email address, or the name of a key. */
  name: string;
}
