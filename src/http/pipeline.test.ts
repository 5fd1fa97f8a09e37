/** Routing: fixed segments before parameters, per method, decoded once, and conflicting definitions. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createRouter } from './pipeline.ts';
import type { Method } from './route.ts';

function route(call: string): { method: Method; path: string } {
  const [method, path] = call.split(' ');
  return { method: method as Method, path: path! };
}

const router = createRouter(
  [
    'GET /templates',
    'GET /templates/:id',
    'PUT /templates/:id',
    'POST /templates/render',
    'POST /templates/:id/render',
    'GET /a/:x/c',
    'GET /a/b/:y',
  ].map(route),
);

function found(method: string, path: string): string {
  const match = router(method, path);
  if (!match.found) return match.allow.join(',');
  return `${match.route.path} ${JSON.stringify(match.params)}`;
}

test('the most specific route with the method is selected', () => {
  assert.equal(found('POST', '/templates/render'), '/templates/render {}');
  assert.equal(found('GET', '/templates/render'), '/templates/:id {"id":"render"}');
  assert.equal(found('HEAD', '/templates/x'), '/templates/:id {"id":"x"}');
  assert.equal(found('GET', '/a/b/c'), '/a/b/:y {"y":"c"}');
  assert.equal(found('GET', '/a/%62/c'), '/a/:x/c {"x":"b"}');
  assert.equal(found('GET', '/templates/a%2Fb%25'), '/templates/:id {"id":"a/b%"}');
});

test('the most specific route is selected in any order of definition', () => {
  const paths = [
    '/inbox/:id',
    '/x',
    '/:a/:b/:c',
    '/inbox/wait',
    '/inbox/:id/outcome',
    '/:kind/list/:c',
    '/inbox/clock/move',
  ];
  // All permutations of seven.
  const orders = paths.reduce<string[][]>(
    (all, one) =>
      all.flatMap((order) => Array.from({ length: order.length + 1 }, (_, at) => order.toSpliced(at, 0, one))),
    [[]],
  );
  assert.equal(orders.length, 5_040);
  for (const order of orders) {
    const find = createRouter(order.map((path) => route(`GET ${path}`)));
    for (const path of ['/inbox/wait', '/inbox/clock/move']) {
      const match = find('GET', path);
      assert.equal(match.found && match.route.path, path, order.join(' '));
    }
  }
});

test('an unknown method gets the list of supported ones', () => {
  assert.equal(found('DELETE', '/templates/render'), 'GET,HEAD,POST,PUT');
  assert.equal(found('HEAD', '/templates/x/render'), 'POST');
  for (const path of [
    '/templates/',
    '/templates//render',
    '/Templates',
    '',
    '/__proto__',
    '/templates/%ff',
    '/a/b/c/d',
  ]) {
    assert.equal(found('GET', path), '', path);
  }
});

test('conflicting definitions throw at startup', () => {
  assert.throws(() => createRouter([route('GET /a/:x'), route('GET /a/:y')]), /two routes match GET/);
  assert.throws(() => createRouter([route('GET a')]), /slash/);
});
