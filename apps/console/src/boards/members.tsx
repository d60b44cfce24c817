import { ActionIcon, Button, Group, NativeSelect, Stack, TextInput } from '@mantine/core';
import { Dialog, readField } from '../cards/dialogs.tsx';
import { IconTrash } from '@tabler/icons-react';
import { useMutation, useQueryClient } from '@tanstack/react-query';
import { useNavigate } from '@tanstack/react-router';
import { useRef } from 'react';
import { request } from '../api.ts';
import { usePartMessages } from '../i18n/part.ts';
import { words } from '../i18n/words.ts';
import { ProblemNotice } from '../shell/problem.tsx';
import classes from './boards.module.css';
import { boardMessages } from './messages.ts';
import type { OpenBoard } from './queries.ts';

type MembersProps = {
  isOpen: boolean;
  onClose: () => void;
  board: OpenBoard;
  userId: string;
  canManage: boolean;
};

/** Members of a board. Owners add, change and remove them; the others can leave. */
export function MembersDialog({ isOpen, onClose, board, userId, canManage }: MembersProps) {
  const texts = usePartMessages(boardMessages);
  const { add } = usePartMessages(words);
  const navigate = useNavigate();
  const queryClient = useQueryClient();
  const form = useRef<HTMLFormElement>(null);
  const path = `/boards/${board.id}/members`;
  const onSuccess = () => queryClient.invalidateQueries({ queryKey: ['boards'] });
  const put = useMutation({
    meta: { isHandled: true },
    mutationFn: (body: { email?: string; user_id?: string; role: string }) =>
      request(path, { method: 'POST', body }),
    onSuccess: async () => {
      form.current?.reset();
      await onSuccess();
    },
  });
  const remove = useMutation({
    meta: { isHandled: true },
    mutationFn: (id: string) => request(`${path}/${encodeURIComponent(id)}`, { method: 'DELETE' }),
    onSuccess: async (_, id) => {
      if (id === userId) await navigate({ to: '/app/boards' });
      await onSuccess();
    },
  });
  const error = put.error ?? remove.error;
  const roles = (['editor', 'viewer'] as const).map((value) => ({
    value,
    label: texts.roles[value],
  }));
  return (
    <Dialog isOpen={isOpen} onClose={onClose} title={texts.memberTitle}>
      <Stack>
        <ul className={classes.members}>
          {board.members.map(({ user_id: id, display_name: name, role }) => (
            <li key={id}>
              <span dir="auto">{name || texts.deletedUser}</span>
              {canManage && role !== 'owner' ? (
                <NativeSelect
                  size="xs"
                  aria-label={`${texts.role}: ${name}`}
                  value={role}
                  data={roles}
                  onChange={({ currentTarget }) =>
                    put.mutate({ user_id: id, role: currentTarget.value })
                  }
                />
              ) : (
                <small>{texts.roles[role]}</small>
              )}
              {canManage && role !== 'owner' && (
                <ActionIcon
                  variant="subtle"
                  color="gray"
                  aria-label={texts.removeMember(name)}
                  onClick={() => remove.mutate(id)}
                >
                  <IconTrash size={18} aria-hidden />
                </ActionIcon>
              )}
            </li>
          ))}
        </ul>
        {error && <ProblemNotice error={error} />}
        {canManage && (
          <form
            ref={form}
            onSubmit={(event) => {
              event.preventDefault();
              const email = readField(event.currentTarget, 'email');
              put.mutate({ email, role: readField(event.currentTarget, 'role') });
            }}
          >
            <Stack gap="sm">
              <Group align="start" grow>
                <TextInput
                  name="email"
                  type="email"
                  label={texts.email}
                  description={texts.emailHelp}
                  required
                />
                <NativeSelect name="role" label={texts.role} description={' '} data={roles} />
              </Group>
              <Group justify="end">
                <Button type="submit" loading={put.isPending} aria-label={texts.addMember}>
                  {add}
                </Button>
              </Group>
            </Stack>
          </form>
        )}
        {board.role !== 'owner' && board.role !== null && (
          <Button
            variant="default"
            loading={remove.isPending}
            onClick={() => remove.mutate(userId)}
          >
            {texts.leave}
          </Button>
        )}
      </Stack>
    </Dialog>
  );
}
