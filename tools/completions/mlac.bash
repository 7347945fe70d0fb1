# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Completion of mla-run, mla-compile and mla-opt for bash, and for zsh by bashcompinit. Options,
# commands and values are read out of the programs' own help when they are first asked for, so
# that they are those of the installed version.

declare -gA _mlac_help

# Sets REPLY to what "$@" prints.
_mlac_read() {
    local key="$*"
    if [[ -z ${_mlac_help[$key]+known} ]]; then
        _mlac_help[$key]=$("$@" 2>/dev/null)
    fi
    REPLY=${_mlac_help[$key]}
}

# Of the help in REPLY: options, as --name or, where a value follows, --name=.
_mlac_options() {
    grep -oE '^ +--?[A-Za-z][A-Za-z0-9-]*(=|\[=|)' <<<"$REPLY" | sed -E 's/^ +//; s/\[=$//' | sort -u
}

# Of the help in REPLY: the values that the help of LLVM's tools lists below option $1.
_mlac_values() {
    awk -v option="$1=" '
        $1 ~ /^--/ { inside = index($1, option) == 1 }
        inside && $1 ~ /^=/ { print substr($1, 2) }' <<<"$REPLY"
}

# Files, and folders to look into.
_mlac_files() {
    mapfile -t COMPREPLY < <(compgen -f -- "$1")
    compopt -o filenames 2>/dev/null || true
}

_mlac_complete() {
    local program=$1 word=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]} option=
    COMPREPLY=()
    # Words break at '=': "--name = val".
    if [[ $word == = ]]; then
        option=$previous word=
    elif [[ $previous == = ]]; then
        option=${COMP_WORDS[COMP_CWORD - 2]}
    fi
    if [[ ${program##*/} == mla-run ]]; then
        if ((COMP_CWORD == 1)); then
            _mlac_read "$program" --help
            mapfile -t COMPREPLY < <(compgen -W "help $(sed -nE 's/^  mla-run ([a-z]+) PACKAGE.*/\1/p' <<<"$REPLY" | sort -u) --help --version" -- "$word")
            return
        fi
        _mlac_read "$program" "${COMP_WORDS[1]}" --help
    else
        _mlac_read "$program" --help
    fi
    if [[ -n $option ]]; then
        local values
        values=$(_mlac_values "$option")
        if [[ -n $values ]]; then
            mapfile -t COMPREPLY < <(compgen -W "$values" -- "$word")
        elif [[ $option == --device ]]; then
            mapfile -t COMPREPLY < <(compgen -W "cpu cuda" -- "$word")
        else
            _mlac_files "$word"
        fi
    elif [[ $word == -* ]]; then
        mapfile -t COMPREPLY < <(compgen -W "$(_mlac_options) --help" -- "$word")
        if [[ ${COMPREPLY[0]-} == *= ]]; then compopt -o nospace 2>/dev/null || true; fi
    else
        _mlac_files "$word"
    fi
    return 0
}

complete -F _mlac_complete mla-run mla-compile mla-opt
