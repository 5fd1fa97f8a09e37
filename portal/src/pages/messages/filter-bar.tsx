/** The filters of the message list: a search and two choices, the others behind a button. All are stored in the URL. */
import { Button, Select, TagsInput, TextInput, type TextInputProps } from '@mantine/core';
import { useEffect, useRef, useState } from 'react';
import { useCall } from '../../api.ts';
import { IconFilter, IconSearch, IconX } from '../../icons.ts';
import { SavedFilters } from '../../parts/saved-filters.tsx';
import { filters, messageList } from '../../texts/messages.ts';
import { isPair, listed, TEXT_FILTERS, type useListQuery } from './list-query.ts';
import classes from './messages.module.css';
import { STATUSES } from './search-syntax.ts';

/** After the last keystroke. */
const TYPING_MS = 300;

type List = ReturnType<typeof useListQuery>;

/** A text filter that updates the URL when the user pauses typing or presses Enter. */
function TextFilter({ name, filter: list, ...props }: { name: string; filter: List } & TextInputProps) {
  const inAddress = list.search[name] ?? '';
  const [text, setText] = useState(inAddress);
  const said = useRef(inAddress);
  useEffect(() => {
    if (inAddress === said.current) return;
    said.current = inAddress;
    setText(inAddress);
  }, [inAddress]);
  const say = (value: string): void => {
    if (value === said.current) return;
    said.current = value;
    list.change({ [name]: value }, { typed: true });
  };
  useEffect(() => {
    const timer = setTimeout(() => say(text.trim()), TYPING_MS);
    return () => clearTimeout(timer);
  });
  return (
    <TextInput
      {...props}
      value={text}
      onChange={({ currentTarget }) => setText(currentTarget.value)}
      onKeyDown={({ key }) => key === 'Enter' && say(text.trim())}
    />
  );
}

export function FilterBar({ list }: { list: List }) {
  const { search, change, moreActive, isFiltered, clear } = list;
  const [isOpen, setOpen] = useState(moreActive > 0);
  return (
    <search>
      <div className={classes.bar}>
        <TextFilter
          name={'q'}
          filter={list}
          type={'search'}
          className={classes.search}
          label={messageList.search}
          placeholder={messageList.searchHint}
          leftSection={<IconSearch size={15} aria-hidden />}
        />
        <Select
          className={classes.narrow}
          label={filters.status}
          value={search.status ?? ''}
          onChange={(status) => change({ status: status ?? undefined })}
          data={[
            { value: '', label: filters.anyStatus },
            ...STATUSES.map((value) => ({ value, label: value.charAt(0).toUpperCase() + value.slice(1) })),
          ]}
        />
        <Select
          className={classes.narrow}
          label={filters.range}
          value={search.range ?? ''}
          onChange={(range) => change({ range: range ?? undefined, since: undefined, until: undefined })}
          data={Object.entries(filters.ranges).map(([value, label]) => ({ value, label }))}
        />
        {search.range === 'between' &&
          (['since', 'until'] as const).map((name) => (
            <TextInput
              key={name}
              type={'datetime-local'}
              label={filters[name]}
              value={search[name] ?? ''}
              onChange={({ currentTarget }) => change({ [name]: currentTarget.value })}
            />
          ))}
        <Button
          variant={'default'}
          size={'sm'}
          leftSection={<IconFilter size={14} aria-hidden />}
          aria-expanded={isOpen}
          onClick={() => setOpen(!isOpen)}
        >
          {moreActive > 0 ? filters.moreActive(moreActive) : filters.more}
        </Button>
        <SavedFilters list="messages" size="sm" />
        {isFiltered && (
          <Button variant={'subtle'} size={'sm'} leftSection={<IconX size={14} aria-hidden />} onClick={clear}>
            {messageList.clear}
          </Button>
        )}
      </div>
      {isOpen && <MoreFilters list={list} />}
    </search>
  );
}

function MoreFilters({ list }: { list: List }) {
  const { search, change } = list;
  const [isWrong, setWrong] = useState(false);
  const templates = useCall('listTemplates', { query: { limit: 100 } });
  const known = (templates.data ?? []).map(({ templateId, name }) => ({ value: templateId, label: name }));
  const chosen = search.template ?? '';
  const missing =
    chosen === '' || known.some(({ value }) => value === chosen) ? [] : [{ value: chosen, label: chosen }];
  return (
    <div className={classes.more}>
      {TEXT_FILTERS.map((name) => (
        <TextFilter key={name} name={name} filter={list} label={filters[name]} placeholder={filters[`${name}Hint`]} />
      ))}
      <Select
        label={filters.template}
        value={chosen}
        searchable={true}
        onChange={(template) => change({ template: template ?? undefined })}
        data={[{ value: '', label: filters.anyTemplate }, ...known, ...missing]}
      />
      <TagsInput
        label={filters.tags}
        size={'sm'}
        placeholder={search.tags ? '' : filters.tagsHint}
        maxTags={10}
        value={listed(search.tags, ',')}
        onChange={(tags) => change({ tags: tags.join(',') })}
      />
      <TagsInput
        label={filters.metadata}
        size={'sm'}
        splitChars={[]}
        placeholder={search.metadata ? '' : filters.metadataHint}
        error={isWrong ? filters.metadataWrong : undefined}
        value={listed(search.metadata, '\n')}
        onChange={(pairs) => {
          setWrong(!pairs.every(isPair));
          change({ metadata: pairs.filter(isPair).join('\n') });
        }}
      />
    </div>
  );
}
