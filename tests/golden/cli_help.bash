_entropy_scan()
{
    local words= word=${COMP_WORDS[COMP_CWORD]} verb=${COMP_WORDS[1]}
    local verbs='draw compare tui trends summarise import export merge push sql report cost importance rules explain watch serve sweep help'
    [[ $COMP_CWORD -gt 1 && " $verbs " == *" $verb "* ]] || verb=
    case $verb in
    '') words="--heatmap --curves --figure= --all --step= --series= --phase= --max= --recursive --jobs= --where= --sort= --json --jsonl --csv --quiet --output= --check --check-format= --rules= --salvage --color= --help --version" ;;
    draw) words="--step= --steps= --series= --phase= --max= --format= --size= --for= --letters --font-size= --title= --colormap= --theme= --log --spread= --smooth= --spikes --group= --heads= --perplexity --full --tokens --cost= --where= --sort= --baseline= --output= --rules= --salvage --color= --help" ;;
    compare) words="--step= --phase= --max= --where= --sort= --baseline= --json --output= --rules= --salvage --color= --help" ;;
    tui) words="--series= --phase= --max= --colormap= --follow --rules= --salvage --color= --help" ;;
    trends) words="--step= --series= --phase= --where= --sort= --json --output= --salvage --color= --help" ;;
    summarise) words="--step= --series= --phase= --max= --recursive --jobs= --slurm --tasks= --work= --part= --where= --sort= --json --jsonl --csv --quiet --output= --check --rules= --salvage --color= --help" ;;
    import) words="--output= --from= --name= --arch= --ctx= --step= --tags= --step-key= --series= --phase= --quiet --help" ;;
    export) words="--recursive --output= --format= --run= --series= --phase= --salvage --help" ;;
    merge) words="--output= --recursive --quiet --salvage --help" ;;
    push) words="--recursive --to= --follow --poll= --keep= --jobs= --rules= --json --schema --quiet --salvage --help" ;;
    sql) words="--recursive --csv --json --output= --views --help" ;;
    report) words="--output= --recursive --series= --phase= --max= --rules= --title= --quiet --salvage --help" ;;
    cost) words="--n-layer= --n-head= --d-model= --ctx= --vocab= --mlp-mult= --final-norm= --simplified --inventory --polynomial --json --figure= --over= --shares --recursive --output= --format= --size= --for= --font-size= --title= --theme= --salvage --help" ;;
    importance) words="--json --figure= --rules= --recursive --output= --format= --size= --for= --title= --theme= --salvage --help" ;;
    rules) words="--help" ;;
    explain) words="--help" ;;
    watch) words="--recursive --once --check --rules= --state= --severity= --exec= --exec-timeout= --webhook-env= --webhook-file= --webhook-format= --webhook-timeout= --stop --stop-at= --textfile= --poll= --json --help" ;;
    serve) words="--port= --bind= --token-file= --host= --base-path= --allow-stop --until-eof --open --rules= --help" ;;
    sweep) words="--output= --jobs= --status --slurm --run= --rules= --all --no-stop --draws= --grace= --dry-run --help" ;;
    help) words="--man --all --completion --help" ;;
    esac
    [[ $COMP_CWORD -eq 1 || $verb == help ]] && words+=" $verbs"
    COMPREPLY=($(compgen -W "$words" -- "$word"))
    [[ ${COMPREPLY[0]} == *= ]] && compopt -o nospace
}
complete -o default -F _entropy_scan entropy-scan
