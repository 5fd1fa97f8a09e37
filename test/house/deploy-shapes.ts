/**
 * The parts of the Compose schema that deploy/compose.yaml uses, closed: a field that is missing here is a typo, or must be looked up and
 * added. Types and names are those of the Compose specification.
 */
type Shape = Record<string, unknown>;

const text = { type: 'string', minLength: 1 };
const count = { type: 'integer', minimum: 0 };
const words = (...allowed: string[]): Shape => ({ enum: allowed });
const list = (items: Shape): Shape => ({ type: 'array', items, minItems: 1 });
const map = (values: Shape): Shape => ({ type: 'object', additionalProperties: values });

/** An object with exactly these members; a name that ends in ! is required. */
function closed(members: Record<string, Shape>): Shape {
  const properties = Object.fromEntries(Object.entries(members).map(([name, one]) => [name.replace('!', ''), one]));
  const required = Object.keys(members).flatMap((name) => (name.endsWith('!') ? [name.slice(0, -1)] : []));
  return { type: 'object', properties, required, additionalProperties: false };
}

const duration = { type: 'string', pattern: '^\\d+(ms|s|m|h)$' };
const condition = words('service_started', 'service_healthy', 'service_completed_successfully');

const ipv4 = { type: 'string', pattern: '^\\d+(\\.\\d+){3}$' };
const network = { type: 'string', pattern: '^\\d+(\\.\\d+){3}/\\d+$' };

export const composeShape = closed({
  name: { type: 'string', pattern: '^[a-z0-9][a-z0-9_-]*$' },
  'x-node': { type: 'object' },
  'services!': map(
    closed({
      build: closed({ 'context!': text, dockerfile: text }),
      'image!': text,
      restart: words('no', 'always', 'on-failure', 'unless-stopped'),
      stop_grace_period: duration,
      env_file: list(text),
      environment: map({ type: 'string' }),
      depends_on: { anyOf: [list(text), map(closed({ 'condition!': condition }))] },
      ports: list({ type: 'string', pattern: '^(\\d+:)?\\d+$' }),
      volumes: list({ type: 'string', pattern: '^[\\w./-]+:/[\\w./-]+(:ro)?$' }),
      networks: map(closed({ ipv4_address: ipv4 })),
      healthcheck: closed({ 'test!': list(text), interval: duration, timeout: duration, retries: count }),
    }),
  ),
  networks: map(closed({ ipam: closed({ config: list(closed({ subnet: network })) }) })),
  volumes: map({ anyOf: [{ type: 'null' }, closed({})] }),
});
