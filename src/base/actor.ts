/** Who does something, as a record of changes names them: kept by value, so that it can still be read when they are gone. */
export interface Actor {
  kind: 'user' | 'key' | 'credential' | 'command-line' | 'system';
  /** usr_…, key_…, smtp_…; empty where there is none. */
  id: string;
  /** As a person knows them: an address, the name of a key. */
  name: string;
}
