import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { DevAccess } from '../../src/accounts.ts';
import { assertOffered, offeredPermissions, offeredRoles } from '../../src/control/offered.ts';

const access = { role_ids: ['svc_admin', 'owner'], permission_ids: ['svc.tools.use', 'x.y'] };

describe('what is offered', () => {
  test('are the roles of the application and those that the account has', () => {
    assert.deepEqual(
      offeredRoles(access).map(({ slug, chosen }) => [slug, chosen]),
      [
        ['svc_user', false],
        ['svc_admin', true],
        ['owner', true],
      ],
    );
  });

  test('are its permissions, likewise', () => {
    const offered = offeredPermissions(access);
    assert.equal(offered.length, 14);
    assert.deepEqual(
      offered.filter(({ chosen }) => chosen).map(({ slug }) => slug),
      ['svc.tools.use', 'x.y'],
    );
  });

  test('can be chosen, and nothing else', () => {
    assertOffered(access, { role_ids: ['owner', 'svc_user'], permission_ids: ['x.y'] });
    assertOffered(access, { role_ids: [], permission_ids: [] });
    const refused: [DevAccess, RegExp][] = [
      [{ role_ids: ['Svc_user'], permission_ids: [] }, /no role “Svc_user”/],
      [{ role_ids: [], permission_ids: ['svc.tools'] }, /no permission “svc\.tools”/],
      [{ role_ids: ['x.y'], permission_ids: [] }, /no role “x\.y”/],
    ];
    for (const [chosen, message] of refused) {
      assert.throws(() => assertOffered(access, chosen), { statusCode: 400, message });
    }
  });
});
